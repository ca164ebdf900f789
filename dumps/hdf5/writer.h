// Writes a new HDF5 file: groups, attributes, data sets. Dumps and results are both written through this class. For
// .cpp files, not for headers that other folders include.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/hdf5/handle.h"

namespace attest::hdf5 {

/// Elements along each axis; empty: a scalar.
using Extent = std::vector<hsize_t>;

/// The order in which a group lists its entries.
enum class LinkOrder : std::uint8_t { by_name, by_creation };

/// A dimension scale: a data set with the values of an axis, and the axes that it is attached to. They become known as
/// data sets are created; FileWriter::finish_scale() writes them into the file.
struct DimensionScale {
  struct Axis {
    hobj_ref_t data_set = 0;
    int number = 0;
  };
  hobj_ref_t data_set = 0;
  std::vector<Axis> attached = {};
};

/// Larger scales are contiguous. HDF5 allows 64 KiB in a header.
inline constexpr std::size_t kMaxCompactBytes = 32768;

/// How a data set is stored. The default: contiguous, allocated with the first write.
struct DatasetLayout {
  const void* fill = nullptr;   ///< one element: the value of elements that are never written; null: undefined
  bool allocate_early = false;  ///< reserve the space in the file at creation
  bool written_whole = false;   ///< all of it will be written, so it need not be filled first
  bool compact = false;         ///< in the object's header
  Extent chunk = {};            ///< one extent per axis; empty: contiguous
  int gzip_level = 0;           ///< 1..9: shuffled and deflated, needs `chunk`; 0: plain
  std::vector<std::string> axis_labels = {};      ///< HDF5 dimension labels, one per axis, or none
  std::vector<DimensionScale*> axis_scales = {};  ///< scales to attach, one per axis, or none
};

/// Where the rows of a data set are in the file. A row is an entry of its first axis.
struct RowPlaces {
  std::uint64_t offset = 0;  ///< of row 0
  std::size_t row_bytes = 0;
  std::size_t num_rows = 0;
};

/// The little-endian file type for elements of type T. Call it under a Lock.
template <class T>
hid_t element_type() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_STD_U8LE;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_STD_I32LE;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_STD_I64LE;
  if constexpr (std::is_same_v<T, float>) return H5T_IEEE_F32LE;
  if constexpr (std::is_same_v<T, double>) return H5T_IEEE_F64LE;
}

/// The file appears under its name, complete, in finish(); without finish() nothing remains. It is readable by HDF5 1.8
/// and later. Metadata have checksums and data sets of 1 MiB or more begin at page boundaries. No times are stored, so
/// that the same content gives the same bytes. Throws OutputError with HDF5's own message when the file cannot be
/// written. All functions take the library's lock. `at` is a group or, for attributes, also a data set. Handles must be
/// closed before finish().
class FileWriter {
 public:
  explicit FileWriter(const std::string& path, const AtomicFileOptions& options = {});

  /// The root group.
  const Handle& root() const { return file_; }

  Handle create_group(const Handle& at, const std::string& name, LinkOrder order = LinkOrder::by_name) const;
  /// An existing group or data set.
  Handle open(const Handle& at, const std::string& name) const;

  /// A scalar: UTF-8 text of any length, int64 or float64.
  void write_attribute(const Handle& at, const char* name, const std::string& text) const;
  void write_attribute(const Handle& at, const char* name, double value) const;
  void write_attribute(const Handle& at, const char* name, std::integral auto value) const {
    write_integer(at, name, static_cast<std::int64_t>(value));
  }
  /// A list of strings, or of float64.
  void write_attribute(const Handle& at, const char* name, const std::vector<std::string>& texts) const;
  void write_attribute(const Handle& at, const char* name, std::span<const double> values) const;

  Handle create_dataset(const Handle& at, const std::string& name, hid_t type, const Extent& extent,
                        const DatasetLayout& layout = {}) const;
  template <class T>
  Handle create_dataset(const Handle& at, const std::string& name, const Extent& extent,
                        const DatasetLayout& layout = {}) const {
    const Lock lock;
    return create_dataset(at, name, element_type<T>(), extent, layout);
  }

  /// Creates a data set and writes all of it, row-major. Here and below: std::logic_error when the number of values is
  /// not that of the elements.
  template <class T>
  void write_dataset(const Handle& at, const std::string& name, std::span<const T> values, const Extent& extent,
                     const DatasetLayout& layout = {}) const {
    const Lock lock;
    expect_count(values.size(), extent);
    write_all(create_dataset(at, name, element_type<T>(), extent, layout), element_type<T>(), values.data());
  }
  /// The same for a one-dimensional list of strings.
  void write_dataset(const Handle& at, const std::string& name, const std::vector<std::string>& texts,
                     const DatasetLayout& layout = {}) const;

  /// Writes a list of numbers as a dimension scale, which other data sets of the file may have as the scale of an axis.
  template <class T>
  DimensionScale write_scale(const Handle& at, const std::string& name, std::span<const T> values,
                             const DatasetLayout& layout = {}) const {
    const Lock lock;
    DatasetLayout own = layout;
    own.compact = values.size_bytes() <= kMaxCompactBytes;
    const Handle data = create_dataset(at, name, element_type<T>(), {values.size()}, own);
    write_all(data, element_type<T>(), values.data());
    return make_scale(data);
  }
  /// Writes what a scale is attached to, once all its data sets are created.
  void finish_scale(const Handle& at, const std::string& name, const DimensionScale& scale) const;

  /// Writes the block [start, start + count) of a data set from row-major elements of `type`.
  void write_block(const Handle& data, const Extent& start, const Extent& count, hid_t type, const void* values) const;

  /// Creates a contiguous data set whose rows are written with write_row(). A row that is never written has undefined
  /// values, whatever `fill` says: `fill` is only recorded as the data set's fill value.
  template <class T>
  RowPlaces create_rows(const Handle& at, const std::string& name, const Extent& extent, const T& fill,
                        std::vector<std::string> axis_labels, std::vector<DimensionScale*> axis_scales = {}) const {
    const Lock lock;
    return create_rows(at, name, element_type<T>(), sizeof(T), extent,
                       {.fill = &fill,
                        .allocate_early = true,
                        .written_whole = true,
                        .axis_labels = std::move(axis_labels),
                        .axis_scales = std::move(axis_scales)});
  }
  /// Writes the little-endian bytes of a row. It goes past HDF5 and its lock, which makes it several times as fast as
  /// write_block(). Thread-safe.
  void write_row(const RowPlaces& rows, std::size_t row, std::span<const std::byte> bytes) const;
  /// AtomicFile::start_sync()
  void start_sync() const { target_.start_sync(); }

  /// Completes the file and gives it its name. Throws std::logic_error while an object of the file is open.
  void finish();

 private:
  template <class Result>
  Result checked(Result result) const;
  Handle owned(hid_t id) const;
  [[noreturn]] void fail_with_library_error() const;
  Handle creation_properties(hid_t kind) const;
  Handle space_of(const Extent& extent) const;
  Handle storage_of(hid_t type, const DatasetLayout& layout) const;
  void write_integer(const Handle& at, const char* name, std::int64_t value) const;
  RowPlaces create_rows(const Handle& at, const std::string& name, hid_t type, std::size_t element_bytes,
                        const Extent& extent, const DatasetLayout& layout) const;
  void write_raw_attribute(const Handle& at, const char* name, hid_t type, const Extent& extent,
                           const void* value) const;
  hobj_ref_t reference_to(const Handle& object) const;
  DimensionScale make_scale(const Handle& data) const;
  void attach_scales(const Handle& data, const std::vector<DimensionScale*>& scales) const;
  void write_all(const Handle& data, hid_t type, const void* values) const;
  static void expect_count(std::size_t num_values, const Extent& extent);

  AtomicFile target_;  ///< first, so that it is destroyed after the open file
  Handle file_, string_type_, scale_class_type_, scale_list_type_;
};

}  // namespace attest::hdf5
