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

/// How a group lists what is in it.
enum class LinkOrder : std::uint8_t { by_name, by_creation };

/// How a data set is stored. The default: contiguous, allocated with the first write.
struct DatasetLayout {
  const void* fill = nullptr;                 ///< one element, the value of what is never written; null: undefined
  bool allocate_early = false;                ///< room in the file as soon as it is created
  bool written_whole = false;                 ///< all of it will be written, so that nothing need be filled in before
  Extent chunk = {};                          ///< of the data set's rank; empty: contiguous
  int gzip_level = 0;                         ///< 1..9: shuffled and deflated, needs `chunk`; 0: plain
  std::vector<std::string> axis_labels = {};  ///< HDF5 dimension labels, one per axis, or none
};

/// The little-endian type in the file of an element in memory. Call it under a Lock.
template <class T>
hid_t element_type() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_STD_U8LE;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_STD_I32LE;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_STD_I64LE;
  if constexpr (std::is_same_v<T, float>) return H5T_IEEE_F32LE;
  if constexpr (std::is_same_v<T, double>) return H5T_IEEE_F64LE;
}

/// The file appears under its name in finish(), whole; without it nothing remains. Readable by HDF5 1.8 and later;
/// metadata carry checksums, data sets from 1 MiB on begin at page borders, and no time is noted, so that the same
/// content makes the same bytes. Throws OutputError with HDF5's own words when the file cannot be written. Takes the
/// library's lock by itself. `at` is a group or, for attributes, also a data set; handles must be closed before
/// finish().
class FileWriter {
 public:
  explicit FileWriter(const std::string& path, const AtomicFileOptions& options = {});

  /// The root group.
  const Handle& root() const { return file_; }

  Handle create_group(const Handle& at, const std::string& name, LinkOrder order = LinkOrder::by_name) const;
  /// A group or data set that is there.
  Handle open(const Handle& at, const std::string& name) const;
  bool contains(const Handle& at, const std::string& name) const;

  /// A scalar: UTF-8 of any length, int64 or float64.
  void write_attribute(const Handle& at, const char* name, const std::string& text) const;
  void write_attribute(const Handle& at, const char* name, double value) const;
  void write_attribute(const Handle& at, const char* name, std::integral auto value) const {
    write_integer(at, name, static_cast<std::int64_t>(value));
  }
  /// A list of strings.
  void write_attribute(const Handle& at, const char* name, const std::vector<std::string>& texts) const;

  Handle create_dataset(const Handle& at, const std::string& name, hid_t type, const Extent& extent,
                        const DatasetLayout& layout = {}) const;
  template <class T>
  Handle create_dataset(const Handle& at, const std::string& name, const Extent& extent,
                        const DatasetLayout& layout = {}) const {
    const Lock lock;
    return create_dataset(at, name, element_type<T>(), extent, layout);
  }

  /// Creates a data set and writes all of it, row-major. Here and below, std::logic_error when there are more or fewer
  /// values than elements.
  template <class T>
  void write_dataset(const Handle& at, const std::string& name, std::span<const T> values, const Extent& extent,
                     const DatasetLayout& layout = {}) const {
    const Lock lock;
    expect_count(values.size(), extent);
    write_all(create_dataset(at, name, element_type<T>(), extent, layout), element_type<T>(), values.data());
  }
  /// The same of strings, [texts].
  void write_dataset(const Handle& at, const std::string& name, const std::vector<std::string>& texts,
                     const DatasetLayout& layout = {}) const;

  /// Writes the block [start, start + count) of a data set from row-major elements of `type`.
  void write_block(const Handle& data, const Extent& start, const Extent& count, hid_t type, const void* values) const;
  template <class T>
  void write_block(const Handle& data, const Extent& start, const Extent& count, std::span<const T> values) const {
    const Lock lock;
    expect_count(values.size(), count);
    write_block(data, start, count, element_type<T>(), values.data());
  }

  /// Completes the file and gives it its name. Throws std::logic_error while an object of the file is open.
  void finish();

 private:
  template <class Result>
  Result checked(Result result) const;
  Handle owned(hid_t id) const;
  [[noreturn]] void fail_with_library_error() const;
  Handle untimed(hid_t kind) const;
  Handle space_of(const Extent& extent) const;
  Handle storage_of(hid_t type, const DatasetLayout& layout) const;
  void write_integer(const Handle& at, const char* name, std::int64_t value) const;
  void write_raw_attribute(const Handle& at, const char* name, hid_t type, const Extent& extent,
                           const void* value) const;
  void write_all(const Handle& data, hid_t type, const void* values) const;
  static void expect_count(std::size_t num_values, const Extent& extent);

  AtomicFile target_;  ///< first: its destructor comes after that of the open file
  Handle file_, string_type_;
};

}  // namespace attest::hdf5
