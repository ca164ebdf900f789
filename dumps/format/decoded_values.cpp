// Decoding in a child, and the numbers that come from it.
#include "dumps/format/decoded_values.h"

#include <fmt/core.h>

#include <limits>

#include "dumps/base/error.h"
#include "dumps/format/memory_bound.h"
#include "dumps/hdf5/dataset.h"
#include "dumps/hdf5/node.h"

namespace attest {

void fail_changed(const std::string& file, const std::string& object, std::string_view how) {
  throw InputError(fmt::format("{}: {}: {}, the file has changed since it was opened", file, object, how));
}

DecodedTarget decoded_target(const char* name, ElementType type, std::span<std::byte> to) {
  return {name, type, to.size(), [to](ChildInput& input) { return input.read(to); }};
}

void read_decoded(const InputFile& file, const std::string& group_path, std::span<const DecodedTarget> targets) {
  const std::string& path = file.path();
  std::size_t expected = 0;
  std::size_t received = 0;
  for (const DecodedTarget& target : targets) expected += target.bytes;
  run_in_guarded_child(
      path, value_limits(file.stored_bytes(), expected),
      [&](ChildOutput& output) {
        const hdf5::Group group = hdf5::open_group(file, group_path);
        for (const DecodedTarget& target : targets) {
          const hdf5::Dataset data(group.open(target.name));
          if (data.location().bytes != target.bytes || data.element_type() != target.type)
            fail_changed(path, data.path(), "has another size or element type");
          data.read_slabs([&](std::span<const std::byte> slab) { output.write(slab); });
        }
      },
      [&](ChildInput& input) {
        for (const DecodedTarget& target : targets) received += target.receive(input);
      });
  if (received != expected) fail_changed(path, group_path);
}

std::vector<float> read_reals(const InputFile& file, std::uint64_t allowed_memory, const std::string& group_path,
                              const char* name, ElementType type, std::size_t count) {
  const std::size_t beside = type == ElementType::float32 ? 0 : count * size_of(type);
  check_memory_bound(file, group_path + "/" + name, count * sizeof(float) + beside, allowed_memory);
  std::vector<float> values(count);
  std::vector<std::byte> elements(beside);
  const DecodedTarget all =
      decoded_target(name, type, beside > 0 ? std::span(elements) : std::as_writable_bytes(std::span(values)));
  read_decoded(file, group_path, std::span(&all, 1));
  if (beside > 0) convert_to_float(type, elements.data(), count, values.data());
  return values;
}

std::vector<std::int32_t> read_integers(const InputFile& file, std::uint64_t allowed_memory,
                                        const std::string& group_path, const char* name, std::size_t count) {
  using T = std::int32_t;  // HDF5 reads integers of any width as 64 bits
  const std::string object = group_path + "/" + name;
  check_memory_bound(file, object, count * (sizeof(T) + sizeof(std::int64_t)), allowed_memory);
  std::vector<T> values(count);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
  std::size_t received = 0;
  run_in_guarded_child(
      file.path(), value_limits(file.stored_bytes(), bytes.size()),
      [&](ChildOutput& output) {
        const auto wide = hdf5::Dataset(hdf5::open_group(file, group_path).open(name)).read_integers();
        if (wide.size() != count) fail_changed(file.path(), object, "has another size");
        std::vector<T> narrow(wide.size());
        for (std::size_t i = 0; i < wide.size(); ++i) {
          narrow[i] = static_cast<T>(wide[i]);
          if (narrow[i] != wide[i])
            throw InputError(fmt::format("{}: {}: entry {} is {}, expected {} to {}", file.path(), object, i, wide[i],
                                         std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
        }
        output.write(std::as_bytes(std::span(narrow)));
      },
      [&](ChildInput& input) { received = input.read(bytes); });
  if (received != bytes.size()) fail_changed(file.path(), object);
  return values;
}

}  // namespace attest
