// Changes of the data sets of an HDF5 file, each through the HDF5 library. Where a change makes no sense, nothing
// happens.
#pragma once

#include <string>

#include "tests/dumps/hdf5_edit.h"
#include "tests/fuzz/fuzz_target.h"

namespace attest::fuzz {

/// The same data set with another shape, type or layout.
void replace_data(const test::Edit& edit, const std::string& object, RandomStream& random);

/// A shape that is claimed, in chunks of which none or one are there.
void claim_much(const test::Edit& edit, const std::string& object, RandomStream& random);

/// Odd values in a data set of numbers: a few, or all.
void change_values(const test::Edit& edit, const std::string& object, RandomStream& random);

/// Other bytes in the first chunk, as they are stored.
void change_chunk(const test::Edit& edit, const std::string& object, RandomStream& random);

/// Values that are in other files.
void replace_by_far_values(const test::Edit& edit, const std::string& object, RandomStream& random);

}  // namespace attest::fuzz
