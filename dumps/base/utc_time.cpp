// The one source that compiles fmt's calendar.
#include "dumps/base/utc_time.h"

#include <fmt/chrono.h>

namespace attest {

std::string utc_time(std::chrono::system_clock::time_point at) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(at)));
}

}  // namespace attest
