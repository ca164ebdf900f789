// Mutation of HDF5 data sets.
#include "tests/fuzz/hdf5_data_mutation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/hdf5_odd_values.h"
#include "tests/fuzz/text_mutation.h"

namespace attest::fuzz {
namespace {

using test::done;
using test::Edit;
using test::Handle;
using test::own;

std::vector<hsize_t> extents_of(hid_t data) {
  const Handle space = own(H5Dget_space(data));
  std::vector<hsize_t> extents(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.get()))));
  if (!extents.empty()) done(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr));
  return extents;
}

struct Form {
  std::vector<hsize_t> extents;
  Handle type;
};

Form form_of(const Edit& edit, const std::string& object) {
  const Handle data = edit.open(object);
  return {extents_of(data.get()), own(H5Dget_type(data.get()))};
}

std::vector<hsize_t> odd_extents(std::vector<hsize_t> extents, RandomStream& random) {
  const auto at = [&] { return random.below(extents.size()); };
  const std::uint64_t kind = extents.empty() ? 3 : random.below(6);
  if (kind == 0) extents[at()] += 1;
  if (kind == 1) extents[at()] -= extents.back() > 0 ? 1 : 0;
  if (kind == 2) extents[at()] = 0;
  if (kind == 3) extents.push_back(1 + random.below(3));
  if (kind == 4) extents.erase(extents.begin() + static_cast<long>(at()));
  if (kind == 5) std::swap(extents[at()], extents[at()]);
  for (hsize_t& extent : extents) extent = std::min<hsize_t>(extent, 4096);
  return extents;
}

/// Layouts and filters of a new data set.
Handle odd_layout(const std::vector<hsize_t>& extents, std::size_t element_bytes, RandomStream& random) {
  Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
  if (extents.empty()) return properties;
  switch (random.below(5)) {
    case 0:
      done(H5Pset_layout(properties.get(), H5D_COMPACT));
      return properties;
    case 1:
      return properties;
    default:
      break;
  }
  std::vector<hsize_t> chunk = extents;
  for (hsize_t& extent : chunk) extent = std::max<hsize_t>(1, random.below(3) == 0 ? 1 : random.below(extent + 2));
  done(H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()));
  if (random.below(2) == 0) done(H5Pset_shuffle(properties.get()));
  if (random.below(2) == 0) done(H5Pset_deflate(properties.get(), 1 + static_cast<unsigned>(random.below(9))));
  if (random.below(4) == 0) done(H5Pset_fletcher32(properties.get()));
  if (random.below(12) == 0) done(H5Pset_scaleoffset(properties.get(), H5Z_SO_INT, 0));
  if (random.below(12) == 0) done(H5Pset_nbit(properties.get()));
  if (random.below(12) == 0) {
    const std::vector<std::byte> fill(element_bytes, std::byte{0x7f});
    done(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_ALLOC));
  }
  return properties;
}

std::vector<std::byte> values_of(const Edit& edit, const std::string& object, hid_t type) {
  const Handle data = edit.open(object), space = own(H5Dget_space(data.get()));
  const hssize_t count = done(H5Sget_simple_extent_npoints(space.get()));
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * H5Tget_size(type));
  done(H5Dread(data.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()));
  return bytes;
}

bool has_plain_values(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  return kind == H5T_INTEGER || kind == H5T_FLOAT;
}

}  // namespace

void replace_data(const Edit& edit, const std::string& object, RandomStream& random) {
  auto [extents, type] = form_of(edit, object);
  std::vector<std::byte> values;
  if (has_plain_values(type.get())) values = values_of(edit, object, type.get());
  if (values.empty() || random.below(3) == 0) {
    type = random.below(2) == 0 ? own(H5Tcopy(odd_type(random))) : odd_compound_type(random);
    values.clear();
  }
  if (random.below(2) == 0) extents = odd_extents(extents, random);
  std::size_t bytes = H5Tget_size(type.get());
  for (const hsize_t extent : extents) bytes *= extent;
  if (bytes > (std::size_t{1} << 20)) return;
  values.resize(bytes);
  const Handle properties = odd_layout(extents, H5Tget_size(type.get()), random);
  const bool plain = has_plain_values(type.get()) || H5Tget_class(type.get()) == H5T_STRING;
  edit.dataset(object, type.get(), extents, plain && random.below(8) != 0 ? values.data() : nullptr, properties.get());
}

void claim_much(const Edit& edit, const std::string& object, RandomStream& random) {
  auto [extents, type] = form_of(edit, object);
  if (extents.empty()) return;
  for (hsize_t& extent : extents)
    if (random.below(2) == 0) extent = any_of(random, kOddNumbers) >> random.below(40);
  const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
  std::vector<hsize_t> chunk(extents.size(), 1);
  chunk.back() = 1 + random.below(64);
  done(H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()));
  if (random.below(2) == 0) done(H5Pset_deflate(properties.get(), 1));
  edit.dataset(object, type.get(), extents, nullptr, properties.get());
}

void change_values(const Edit& edit, const std::string& object, RandomStream& random) {
  const Handle data = edit.open(object), type = own(H5Dget_type(data.get()));
  if (!has_plain_values(type.get())) return;
  const Handle space = own(H5Dget_space(data.get()));
  const auto count = static_cast<std::size_t>(done(H5Sget_simple_extent_npoints(space.get())));
  if (count == 0) return;
  if (H5Tget_class(type.get()) == H5T_FLOAT) {
    std::vector<double> values(count);
    done(H5Dread(data.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    for (std::uint64_t times = 1 + random.below(4); times > 0; --times) any_of(random, values) = odd_number(random);
    done(H5Dwrite(data.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  } else {
    std::vector<std::int64_t> values(count);
    done(H5Dread(data.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    for (std::uint64_t times = 1 + random.below(3); times > 0; --times)
      any_of(random, values) = random.below(2) == 0 ? static_cast<std::int64_t>(any_of(random, kOddNumbers))
                                                    : static_cast<std::int64_t>(random.below(60)) - 5;
    done(H5Dwrite(data.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  }
}

void change_chunk(const Edit& edit, const std::string& object, RandomStream& random) {
  const Handle data = edit.open(object), properties = own(H5Dget_create_plist(data.get()));
  if (H5Pget_layout(properties.get()) != H5D_CHUNKED) return;
  const std::vector<hsize_t> first(extents_of(data.get()).size(), 0);
  hsize_t stored = 0;
  done(H5Dget_chunk_storage_size(data.get(), first.data(), &stored));
  if (stored == 0 || stored > (1 << 20)) return;
  std::string bytes(stored, '\0');
  std::uint32_t mask = 0;
  done(H5Dread_chunk(data.get(), H5P_DEFAULT, first.data(), &mask, bytes.data()));
  damage_bytes(bytes, random);
  if (random.below(4) == 0) mask = static_cast<std::uint32_t>(random.below(8));
  if (random.below(8) == 0) bytes.append(random.below(100), 'x');
  if (bytes.empty()) return;
  done(H5Dwrite_chunk(data.get(), H5P_DEFAULT, mask, first.data(), bytes.size(), bytes.data()));
}

void replace_by_far_values(const Edit& edit, const std::string& object, RandomStream& random) {
  const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
  auto [extents, type] = form_of(edit, object);
  if (extents.empty()) return;
  const Handle space = own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
  if (random.below(2) == 0)
    done(H5Pset_external(properties.get(), "/etc/hostname", 0, H5F_UNLIMITED));
  else
    done(H5Pset_virtual(properties.get(), space.get(), random.below(2) == 0 ? "." : "/dev/zero", "/x", space.get()));
  edit.dataset(object, type.get(), extents, nullptr, properties.get());
}

}  // namespace attest::fuzz
