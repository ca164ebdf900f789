// Formats points in time as text.
#pragma once

#include <fmt/chrono.h>

#include <chrono>
#include <string>

namespace attest {

/// ISO 8601, UTC, to the second: "2025-01-31T12:00:00Z".
inline std::string utc_time(std::chrono::system_clock::time_point at) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(at)));
}

}  // namespace attest
