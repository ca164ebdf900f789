// Values of a dump that HDF5 decodes, in a guarded child. For dump_reader.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/base/input_file.h"
#include "dumps/element_type.h"
#include "dumps/hdf5/guarded_child.h"

namespace attest {

[[noreturn]] void fail_changed(const std::string& file, const std::string& object, std::string_view how = "ends early");

/// A data set of a group: its element type, its size, and what takes its bytes from the child and returns how many
/// came.
struct DecodedTarget {
  const char* name;
  ElementType type;
  std::size_t bytes;
  std::function<std::size_t(ChildInput&)> receive;
};
DecodedTarget decoded_target(const char* name, ElementType type, std::span<std::byte> to);

/// Decodes data sets in a child and passes their bytes on as they arrive.
void read_decoded(const InputFile& file, const std::string& group_path, std::span<const DecodedTarget> targets);

/// A data set as a whole. `type`: of the elements in the file; narrower ones become float exactly. Here and below
/// `allowed_memory` is what check_memory_bound() takes.
std::vector<float> read_reals(const InputFile& file, std::uint64_t allowed_memory, const std::string& group_path,
                              const char* name, ElementType type, std::size_t count);
/// Integers of any width, which must fit.
std::vector<std::int32_t> read_integers(const InputFile& file, std::uint64_t allowed_memory,
                                        const std::string& group_path, const char* name, std::size_t count);

}  // namespace attest
