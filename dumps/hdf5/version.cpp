// hdf5_version.
#include "dumps/hdf5/version.h"

#include <fmt/core.h>

#include "dumps/hdf5/handle.h"

namespace attest {

std::string hdf5_version() {
  const hdf5::Lock lock;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace attest
