// Reads compressed arrays of a results file in a guarded child.
#include "analysis/results/decoded_arrays.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "dumps/base/error.h"
#include "dumps/format/memory_bound.h"
#include "dumps/hdf5/dataset.h"
#include "dumps/hdf5/guarded_child.h"
#include "dumps/hdf5/node.h"

namespace attest {
namespace {

/// Reads arrays one after the other. `into(i)` is where the values of the i-th go.
void decode(const InputFile& file, std::span<const DecodedArrays::Array> arrays,
            const std::function<std::span<float>(std::size_t)>& into) {
  std::size_t bytes = 0;
  for (const DecodedArrays::Array& array : arrays) bytes += array.values * sizeof(float);
  bool whole = true;
  run_in_guarded_child(
      file.path(), value_limits(file.stored_bytes(), bytes),
      [&](ChildOutput& out) {
        const auto open = hdf5::open_file(file);
        for (const DecodedArrays::Array& array : arrays) {
          hdf5::Group group = hdf5::root_of(open);
          std::string_view rest = std::string_view(array.object).substr(1);
          for (std::size_t slash; (slash = rest.find('/')) != rest.npos; rest.remove_prefix(slash + 1))
            group = group.group(std::string(rest.substr(0, slash)));
          hdf5::Dataset(group.open(std::string(rest))).read_slabs([&](std::span<const std::byte> slab) {
            out.write(slab);
          });
        }
      },
      [&](ChildInput& in) {
        for (std::size_t i = 0; i < arrays.size() && whole; ++i) {
          const std::span<std::byte> target = std::as_writable_bytes(into(i));
          whole = in.read(target) == target.size();
        }
      });
  if (!whole) throw InputError(fmt::format("{}: changed while it was read", file.path()));
}

}  // namespace

std::uint64_t max_decoded(std::uint64_t stored_bytes) {
  constexpr std::uint64_t kFree = std::uint64_t{256} << 20;
  return std::max(kFree, kFreeExpansion * stored_bytes);
}

void DecodedArrays::read(const InputFile& file, const std::string& object, std::span<float> values) const {
  {
    const std::lock_guard lock(mutex_);
    if (!tried_) {
      tried_ = true;
      read_all(file);
    }
    if (const auto known = values_.find(object); known != values_.end() && known->second.size() == values.size()) {
      std::ranges::copy(known->second, values.begin());
      return;
    }
  }
  const Array array{object, values.size()};
  decode(file, {&array, 1}, [&](std::size_t) { return values; });
}

void DecodedArrays::read_all(const InputFile& file) const {
  std::uint64_t bytes = 0;
  for (const Array& array : arrays_) bytes += array.values * sizeof(float);
  if (bytes > max_decoded(file.stored_bytes())) return;
  try {
    decode(file, arrays_, [&](std::size_t i) {
      std::vector<float>& values = values_[arrays_[i].object];
      values.resize(arrays_[i].values);
      return std::span<float>(values);
    });
  } catch (const InputError&) {  // one of them is damaged: it matters only if it is read
    values_.clear();
  }
}

}  // namespace attest
