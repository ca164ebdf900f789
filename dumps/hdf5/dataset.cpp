// Dataset: checks of type, shape and storage, and reading of values.
#include "dumps/hdf5/dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "dumps/base/join.h"
#include "dumps/hdf5/float_format.h"

namespace attest::hdf5 {
namespace {

/// Deflate expands at most 1032-fold (zlib's technical notes); shuffle keeps the size.
constexpr std::int64_t kLargestExpansion = 1032;

/// Size of one element in the file. For strings of variable length HDF5 reports the size in memory; in the file each is
/// a length, an address and an index.
std::int64_t stored_element_bytes(const Node& node, hid_t type) {
  if (H5Tis_variable_str(type) <= 0) return static_cast<std::int64_t>(H5Tget_size(type));
  const Handle creation(H5Fget_create_plist(node.file().file.get()));
  std::size_t address = 0;
  std::size_t length = 0;
  H5Pget_sizes(creation.get(), &address, &length);
  return static_cast<std::int64_t>(4 + address + 4);
}

Handle open_type(const Node& node) {
  Handle type(H5Dget_type(node.id()));
  if (!type) node.fail_with_library_error("the element type is damaged");
  return type;
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", join(shape, ", ")); }

Dataset::Dataset(Node node) : Node(std::move(node)) {
  if (!is_dataset()) fail("is not a data set, expected one");
  const Handle creation(H5Dget_create_plist(id()));
  if (!creation) fail_with_library_error("the storage description is damaged");
  // Before anything else: HDF5 opens the sources of a virtual data set to tell its shape.
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_VIRTUAL) fail("is a virtual data set, expected its values in this file");
  if (H5Pget_external_count(creation.get()) != 0) fail("its values lie in another file, expected them in this one");
  type_ = open_type(*this);
  read_shape();
  switch (layout) {
    case H5D_CONTIGUOUS:
      check_contiguous();
      break;
    case H5D_CHUNKED:
      check_chunked(creation);
      break;
    case H5D_COMPACT:
      location_.storage = Storage::compact;
      if (H5Dget_storage_size(id()) < location_.bytes) fail("the values are cut off");
      break;
    default:
      fail_with_library_error("the storage layout is damaged");
  }
}

void Dataset::read_shape() {
  const Handle space(H5Dget_space(id()));
  if (!space) fail_with_library_error("the shape is damaged");
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) fail("holds no values");
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> sizes(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank < 0 || H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr) < 0) {
    fail_with_library_error("the shape is damaged");
  }
  std::int64_t bytes = stored_element_bytes(*this, type_.get());
  for (const hsize_t size : sizes) {
    const bool fits = size <= static_cast<hsize_t>(std::numeric_limits<std::int64_t>::max());
    if (!fits || __builtin_mul_overflow(bytes, static_cast<std::int64_t>(size), &bytes)) {
      fail(fmt::format("claims a shape of [{}], the file has {} bytes", join(sizes, ", "), file().bytes));
    }
    shape_.push_back(static_cast<std::int64_t>(size));
  }
  location_.bytes = static_cast<std::size_t>(bytes);
}

void Dataset::check_contiguous() {
  if (location_.bytes == 0) return;
  const haddr_t offset = H5Dget_offset(id());
  if (offset == HADDR_UNDEF) {
    H5Eclear2(H5E_DEFAULT);
    fail("its values were never written");
  }
  const auto file_bytes = static_cast<std::uint64_t>(file().bytes);
  if (offset > file_bytes || location_.bytes > file_bytes - offset || H5Dget_storage_size(id()) != location_.bytes) {
    fail(fmt::format("claims {} bytes of values (shape {}) at offset {}, the file has {} bytes", location_.bytes,
                     shape_text(shape_), offset, file_bytes));
  }
  location_.file_offset = static_cast<std::int64_t>(offset);
}

ChunkReader Dataset::chunk_reader(const Handle& creation) const {
  return {*this, creation, shape_, static_cast<std::size_t>(stored_element_bytes(*this, type_.get()))};
}

void Dataset::check_chunked(const Handle& creation) {
  location_.storage = Storage::chunked;
  const ChunkReader reader = chunk_reader(creation);
  const std::int64_t expansion = reader.inflates() ? kLargestExpansion : 1;
  if (reader.inflates()) location_.storage = Storage::gzip;
  if (location_.bytes == 0) return;

  const std::vector<std::int64_t>& chunk = reader.extent();
  std::int64_t chunks = 1;
  std::int64_t claimed = stored_element_bytes(*this, type_.get());
  bool fits = true;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
    const std::int64_t extent = chunk[axis];
    const std::int64_t along = (shape_[axis] - 1) / extent + 1;
    chunks *= along;  // at most the number of elements, so no overflow
    fits =
        fits && !__builtin_mul_overflow(claimed, extent, &claimed) && !__builtin_mul_overflow(claimed, along, &claimed);
  }
  hsize_t written = 0;
  const Handle space(H5Dget_space(id()));
  if (H5Dget_num_chunks(id(), space.get(), &written) < 0) fail_with_library_error("the index of chunks is damaged");
  const hsize_t stored = H5Dget_storage_size(id());
  if (stored > static_cast<hsize_t>(file().bytes) || !fits || claimed / expansion > static_cast<std::int64_t>(stored)) {
    fail(fmt::format("claims {} bytes of values (shape {}, chunks [{}]), the file has {} bytes and {} of them for it",
                     location_.bytes, shape_text(shape_), join(chunk, ", "), file().bytes, stored));
  }
  if (written != static_cast<hsize_t>(chunks)) {
    fail(fmt::format("{} of its {} chunks were written, expected all", written, chunks));
  }
  rows_per_slab_ = chunk[0];
}

void Dataset::expect_shape(std::span<const std::int64_t> expected, std::string_view meaning) const {
  if (std::ranges::equal(shape_, expected)) return;
  fail(fmt::format("has the shape {}, expected {} ({})", shape_text(shape_), shape_text(expected), meaning));
}

ElementType Dataset::element_type() const {
  const hid_t type = type_.get();
  const bool little_endian = H5Tget_order(type) == H5T_ORDER_LE;
  H5Eclear2(H5E_DEFAULT);
  const std::optional<FloatFormat> format = plain_float(type);
  if (format == kFloat16) return ElementType::float16;
  if (format == kBfloat16) return ElementType::bfloat16;
  if (format == kFloat32) return ElementType::float32;
  const bool is_uint16 = H5Tget_class(type) == H5T_INTEGER && little_endian && fills_its_bytes(type) &&
                         H5Tget_size(type) == 2 && H5Tget_sign(type) == H5T_SGN_NONE;
  if (is_uint16 && has_attribute("dtype")) {
    const std::string name = string_attribute("dtype");
    if (name == "bfloat16") return ElementType::bfloat16;
    fail(fmt::format("attribute 'dtype' is '{}', expected 'bfloat16'", name));
  }
  fail(fmt::format("has elements of type {}, expected little-endian float16, bfloat16 or float32{}", describe(type),
                   is_uint16 ? " (uint16 stands for bfloat16 only with the attribute dtype = 'bfloat16')" : ""));
}

std::int64_t Dataset::expect_reals() const {
  const std::optional<FloatFormat> format = plain_float(type_.get());
  for (const FloatFormat& real : {kFloat16, kFloat32, kFloat64})
    if (format == real) return static_cast<std::int64_t>(real.bytes);
  fail(fmt::format("has elements of type {}, expected little-endian float16, float32 or float64",
                   describe(type_.get())));
}

void Dataset::expect_integers() const {
  if (H5Tget_class(type_.get()) == H5T_INTEGER && H5Tget_size(type_.get()) <= 8) return;
  fail(fmt::format("has elements of type {}, expected integers", describe(type_.get())));
}

std::int64_t Dataset::count() const {
  std::int64_t result = 1;
  for (const std::int64_t size : shape_) result *= size;
  return result;
}

void Dataset::read_all(hid_t memory_type, void* target) const {
  if (is_chunked()) chunk_reader(Handle(H5Dget_create_plist(id()))).check_all();
  if (H5Dread(id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, target) < 0) {
    fail_with_library_error("the values cannot be read");
  }
}

std::vector<double> Dataset::read_doubles() const {
  const H5T_class_t type_class = H5Tget_class(type_.get());
  if (shape_.size() != 1 || (type_class != H5T_FLOAT && type_class != H5T_INTEGER)) fail("is not a list of numbers");
  std::vector<double> values(static_cast<std::size_t>(count()));
  if (!values.empty()) read_all(H5T_NATIVE_DOUBLE, values.data());
  return values;
}

std::vector<std::int64_t> Dataset::read_integers() const {
  expect_integers();
  std::vector<std::int64_t> values(static_cast<std::size_t>(count()));
  if (!values.empty()) read_all(H5T_NATIVE_INT64, values.data());
  return values;
}

std::vector<float> Dataset::read_floats() const {
  if (const ElementType type = element_type(); type != ElementType::float32)
    fail(fmt::format("has elements of type {}, expected float32", name_of(type)));
  std::vector<float> values(static_cast<std::size_t>(count()));
  if (!values.empty()) read_all(H5T_NATIVE_FLOAT, values.data());
  return values;
}

std::vector<std::string> Dataset::read_strings() const {
  if (H5Tget_class(type_.get()) != H5T_STRING) {
    fail(fmt::format("has elements of type {}, expected strings", describe(type_.get())));
  }
  const auto rows = static_cast<std::size_t>(count());
  std::vector<std::string> values(rows);
  if (rows == 0) return values;
  const Handle memory_type(H5Tcopy(H5T_C_S1));
  H5Tset_cset(memory_type.get(), H5Tget_cset(type_.get()));
  if (H5Tis_variable_str(type_.get()) > 0) {
    H5Tset_size(memory_type.get(), H5T_VARIABLE);
    std::vector<char*> texts(rows, nullptr);
    read_all(memory_type.get(), texts.data());
    for (std::size_t i = 0; i < rows; ++i) {
      if (texts[i] != nullptr) values[i] = texts[i];
      H5free_memory(texts[i]);
    }
  } else {
    const std::size_t width = H5Tget_size(type_.get()) + 1;
    H5Tset_size(memory_type.get(), width);
    std::vector<char> texts(rows * width);
    read_all(memory_type.get(), texts.data());
    for (std::size_t i = 0; i < rows; ++i) values[i] = texts.data() + i * width;
  }
  return values;
}

void Dataset::read_slabs(const std::function<void(std::span<const std::byte>)>& receive) const {
  if (location_.bytes == 0 || shape_.empty()) return;
  const std::int64_t rows = shape_[0];
  const std::size_t row_bytes = location_.bytes / static_cast<std::size_t>(rows);
  const std::int64_t slab_rows = std::min(rows_per_slab_, rows);
  std::vector<std::byte> slab(static_cast<std::size_t>(slab_rows) * row_bytes);
  std::optional<ChunkReader> chunks;
  if (is_chunked()) chunks.emplace(chunk_reader(Handle(H5Dget_create_plist(id()))));
  const Handle file_space(H5Dget_space(id()));
  std::vector<hsize_t> start(shape_.size(), 0);
  std::vector<hsize_t> extent(shape_.begin(), shape_.end());
  for (std::int64_t row = 0; row < rows; row += slab_rows) {
    const std::int64_t taken = std::min(slab_rows, rows - row);
    if (chunks) {
      chunks->read_rows(row, taken, slab);
    } else {
      start[0] = static_cast<hsize_t>(row);
      extent[0] = static_cast<hsize_t>(taken);
      const Handle memory_space(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
      if (H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) < 0 ||
          H5Dread(id(), type_.get(), memory_space.get(), file_space.get(), H5P_DEFAULT, slab.data()) < 0)
        fail_with_library_error("the values cannot be read");
    }
    receive(std::span(slab).first(static_cast<std::size_t>(taken) * row_bytes));
  }
}

}  // namespace attest::hdf5
