// Version of the linked HDF5 library.
#pragma once

#include <string>

namespace attest {

/// "1.10.8"
std::string hdf5_version();

}  // namespace attest
