// FileWriter: each HDF5 call is made under the lock, and its failure thrown as OutputError.
#include "dumps/hdf5/writer.h"

#include <fmt/core.h>

#include <cstddef>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace attest::hdf5 {
namespace {

constexpr hsize_t kLarge = 1 << 20;
constexpr hsize_t kPage = 4096;
constexpr char kScaleClass[] = "DIMENSION_SCALE";

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

}  // namespace

template <class Result>
Result FileWriter::checked(Result result) const {
  if (result < 0) fail_with_library_error();
  return result;
}

Handle FileWriter::owned(hid_t id) const { return Handle(checked(id)); }

void FileWriter::fail_with_library_error() const {
  const std::string text = take_error_text();
  target_.fail(text.empty() ? "unknown reason" : text);
}

/// Creation properties of a file, a group or a data set, without timestamps.
Handle FileWriter::creation_properties(hid_t kind) const {
  Handle properties = owned(H5Pcreate(kind));
  checked(H5Pset_obj_track_times(properties.get(), false));
  return properties;
}

Handle FileWriter::space_of(const Extent& extent) const {
  if (extent.empty()) return owned(H5Screate(H5S_SCALAR));
  return owned(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
}

Handle FileWriter::storage_of(hid_t type, const DatasetLayout& layout) const {
  Handle storage = creation_properties(H5P_DATASET_CREATE);
  if (layout.fill != nullptr) checked(H5Pset_fill_value(storage.get(), type, layout.fill));
  if (layout.allocate_early) checked(H5Pset_alloc_time(storage.get(), H5D_ALLOC_TIME_EARLY));
  if (layout.written_whole) checked(H5Pset_fill_time(storage.get(), H5D_FILL_TIME_NEVER));
  if (layout.compact) checked(H5Pset_layout(storage.get(), H5D_COMPACT));
  if (!layout.chunk.empty())
    checked(H5Pset_chunk(storage.get(), static_cast<int>(layout.chunk.size()), layout.chunk.data()));
  if (layout.gzip_level > 0) {
    checked(H5Pset_shuffle(storage.get()));
    checked(H5Pset_deflate(storage.get(), static_cast<unsigned>(layout.gzip_level)));
  }
  return storage;
}

FileWriter::FileWriter(const std::string& path, const AtomicFileOptions& options) : target_(path, options) {
  const Lock lock;
  const Handle access = owned(H5Pcreate(H5P_FILE_ACCESS));
  checked(H5Pset_alignment(access.get(), kLarge, kPage));
  checked(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18));
  const Handle creation = creation_properties(H5P_FILE_CREATE);
  // Opened through its descriptor: HDF5 opens by name, and would follow a link that has replaced the file.
  const std::string opened = fmt::format("/proc/self/fd/{}", target_.descriptor());
  file_ = owned(H5Fcreate(opened.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()));
  string_type_ = owned(H5Tcopy(H5T_C_S1));
  checked(H5Tset_size(string_type_.get(), H5T_VARIABLE));
  checked(H5Tset_cset(string_type_.get(), H5T_CSET_UTF8));
  scale_class_type_ = owned(H5Tcopy(H5T_C_S1));
  checked(H5Tset_size(scale_class_type_.get(), sizeof kScaleClass));
  scale_list_type_ = owned(H5Tvlen_create(H5T_STD_REF_OBJ));
}

Handle FileWriter::create_group(const Handle& at, const std::string& name, LinkOrder order) const {
  const Lock lock;
  const Handle properties = creation_properties(H5P_GROUP_CREATE);
  if (order == LinkOrder::by_creation)
    checked(H5Pset_link_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
  return owned(H5Gcreate2(at.get(), name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
}

Handle FileWriter::open(const Handle& at, const std::string& name) const {
  const Lock lock;
  return owned(H5Oopen(at.get(), name.c_str(), H5P_DEFAULT));
}

void FileWriter::write_attribute(const Handle& at, const char* name, const std::string& text) const {
  const char* pointer = text.c_str();
  write_raw_attribute(at, name, string_type_.get(), {}, &pointer);
}

void FileWriter::write_attribute(const Handle& at, const char* name, const std::vector<std::string>& texts) const {
  write_raw_attribute(at, name, string_type_.get(), {texts.size()}, pointers(texts).data());
}

void FileWriter::write_attribute(const Handle& at, const char* name, std::span<const double> values) const {
  const Lock lock;
  write_raw_attribute(at, name, element_type<double>(), {values.size()}, values.data());
}

void FileWriter::write_attribute(const Handle& at, const char* name, double value) const {
  const Lock lock;
  write_raw_attribute(at, name, element_type<double>(), {}, &value);
}

void FileWriter::write_integer(const Handle& at, const char* name, std::int64_t value) const {
  const Lock lock;
  write_raw_attribute(at, name, element_type<std::int64_t>(), {}, &value);
}

void FileWriter::write_raw_attribute(const Handle& at, const char* name, hid_t type, const Extent& extent,
                                     const void* value) const {
  const Lock lock;
  const Handle space = space_of(extent);
  const Handle attribute = owned(H5Acreate2(at.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  checked(H5Awrite(attribute.get(), type, value));
}

Handle FileWriter::create_dataset(const Handle& at, const std::string& name, hid_t type, const Extent& extent,
                                  const DatasetLayout& layout) const {
  const Lock lock;
  const Handle space = space_of(extent);
  const Handle storage = storage_of(type, layout);
  Handle data = owned(H5Dcreate2(at.get(), name.c_str(), type, space.get(), H5P_DEFAULT, storage.get(), H5P_DEFAULT));
  // The attribute that H5DSset_label of the high-level library writes.
  if (!layout.axis_labels.empty()) write_attribute(data, "DIMENSION_LABELS", layout.axis_labels);
  if (!layout.axis_scales.empty()) attach_scales(data, layout.axis_scales);
  return data;
}

// The attributes of scales are written as H5DSset_scale and H5DSattach_scale of the high-level library write them. That
// function reads and rewrites the list of a scale for every data set.

/// Object references of HDF5 1.8 are addresses.
hobj_ref_t FileWriter::reference_to(const Handle& object) const {
  H5O_info_t info;
  checked(H5Oget_info(object.get(), &info));
  return info.addr;
}

DimensionScale FileWriter::make_scale(const Handle& data) const {
  write_raw_attribute(data, "CLASS", scale_class_type_.get(), {}, kScaleClass);
  return {.data_set = reference_to(data)};
}

void FileWriter::attach_scales(const Handle& data, const std::vector<DimensionScale*>& scales) const {
  std::vector<hvl_t> references;
  for (DimensionScale* scale : scales) references.push_back({.len = 1, .p = &scale->data_set});
  write_raw_attribute(data, "DIMENSION_LIST", scale_list_type_.get(), {references.size()}, references.data());
  DimensionScale::Axis axis{.data_set = reference_to(data)};
  for (DimensionScale* scale : scales) {
    scale->attached.push_back(axis);
    ++axis.number;
  }
}

void FileWriter::finish_scale(const Handle& at, const std::string& name, const DimensionScale& scale) const {
  if (scale.attached.empty()) return;
  const Lock lock;
  const Handle type = owned(H5Tcreate(H5T_COMPOUND, sizeof(DimensionScale::Axis)));
  checked(H5Tinsert(type.get(), "dataset", offsetof(DimensionScale::Axis, data_set), H5T_STD_REF_OBJ));
  checked(H5Tinsert(type.get(), "dimension", offsetof(DimensionScale::Axis, number), H5T_NATIVE_INT));
  write_raw_attribute(open(at, name), "REFERENCE_LIST", type.get(), {scale.attached.size()}, scale.attached.data());
}

void FileWriter::write_dataset(const Handle& at, const std::string& name, const std::vector<std::string>& texts,
                               const DatasetLayout& layout) const {
  write_all(create_dataset(at, name, string_type_.get(), {texts.size()}, layout), string_type_.get(),
            pointers(texts).data());
}

void FileWriter::write_all(const Handle& data, hid_t type, const void* values) const {
  const Lock lock;
  checked(H5Dwrite(data.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
}

void FileWriter::expect_count(std::size_t num_values, const Extent& extent) {
  const auto expected = std::accumulate(extent.begin(), extent.end(), hsize_t{1}, std::multiplies<>());
  if (num_values != expected)
    throw std::logic_error(fmt::format("{} values for {} elements of an HDF5 data set", num_values, expected));
}

void FileWriter::write_block(const Handle& data, const Extent& start, const Extent& count, hid_t type,
                             const void* values) const {
  const Lock lock;
  const Handle in_file = owned(H5Dget_space(data.get()));
  checked(H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr));
  const Handle in_memory = space_of(count);
  checked(H5Dwrite(data.get(), type, in_memory.get(), in_file.get(), H5P_DEFAULT, values));
}

RowPlaces FileWriter::create_rows(const Handle& at, const std::string& name, hid_t type, std::size_t element_bytes,
                                  const Extent& extent, const DatasetLayout& layout) const {
  const Handle data = create_dataset(at, name, type, extent, layout);
  const auto elements = std::accumulate(extent.begin() + 1, extent.end(), std::size_t{1}, std::multiplies<>());
  RowPlaces rows{.offset = 0, .row_bytes = elements * element_bytes, .num_rows = extent.at(0)};
  if (rows.row_bytes == 0 || rows.num_rows == 0) return rows;
  const haddr_t offset = H5Dget_offset(data.get());
  if (offset == HADDR_UNDEF) fail_with_library_error();
  rows.offset = offset;
  return rows;
}

void FileWriter::write_row(const RowPlaces& rows, std::size_t row, std::span<const std::byte> bytes) const {
  if (row >= rows.num_rows || bytes.size() != rows.row_bytes)
    throw std::logic_error(
        fmt::format("row {} of {} with {} bytes, expected {}", row, rows.num_rows, bytes.size(), rows.row_bytes));
  target_.write_at(rows.offset + row * rows.row_bytes, bytes);
}

void FileWriter::finish() {
  {
    const Lock lock;
    // HDF5 keeps a file open while an object of it is open.
    if (checked(H5Fget_obj_count(file_.get(), H5F_OBJ_ALL)) > 1)
      throw std::logic_error("an HDF5 file is finished while an object of it is open");
    if (!file_.close()) fail_with_library_error();
  }
  target_.commit();
}

}  // namespace attest::hdf5
