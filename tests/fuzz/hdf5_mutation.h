// Changes of an HDF5 file through the HDF5 library, and of its bytes.
#pragma once

#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace attest::fuzz {

/// Applies up to three changes to the HDF5 file at `path`: attributes (value, type, shape, presence), data sets (shape,
/// type, values, layout, filters, bytes of a chunk), links (kind, target, name). Each is one that HDF5 can write.
void change_hdf5(const std::string& path, RandomStream& random);

/// The bytes of `seed`, an HDF5 file, changed in one of these ways, in its bytes, or in both. `path` is a file to work
/// in.
std::string mutated_hdf5(const std::string& path, const std::string& seed, RandomStream& random);

}  // namespace attest::fuzz
