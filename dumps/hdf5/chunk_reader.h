// Reads the chunks of an untrusted data set and undoes their filters. HDF5's own filter pipeline does not check how
// many bytes a chunk gave: where these are too few, what lay in memory behind them would become data. Callers hold a
// Lock or run in a guarded child.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dumps/hdf5/node.h"

namespace attest::hdf5 {

class ChunkReader {
 public:
  /// `data` is a chunked data set of this shape, with elements of `element_bytes`. Fails for filters other than gzip,
  /// shuffle and fletcher32. `data` must outlive this object.
  ChunkReader(const Node& data, const Handle& creation, std::span<const std::int64_t> shape, std::size_t element_bytes);

  const std::vector<std::int64_t>& extent() const { return extent_; }  ///< elements of a chunk along each axis
  bool inflates() const { return inflates_; }

  /// Decodes the rows [begin, begin + count) of the first axis into `out`, row-major.
  void read_rows(std::int64_t begin, std::int64_t count, std::span<std::byte> out);
  /// Decodes every chunk and keeps nothing, before HDF5 reads the data set itself.
  void check_all();

 private:
  struct Filter {
    H5Z_filter_t id;
    std::size_t parameter;  ///< of shuffle: bytes of an element
  };

  std::size_t chunk_bytes() const;
  /// Calls visit(first) for every chunk that has some of the rows [begin, end).
  template <class Visit>
  void each_chunk(std::int64_t begin, std::int64_t end, Visit visit);
  /// Decodes the chunk whose first element is at `first` into chunk_.
  void load(std::span<const hsize_t> first);
  void undo(const Filter& filter, std::size_t expected, std::span<const hsize_t> first);
  void inflate_chunk(std::size_t expected, std::span<const hsize_t> first);
  void unshuffle(std::size_t element_bytes);
  void check_fletcher32(std::span<const hsize_t> first);
  [[noreturn]] void fail_at(std::span<const hsize_t> first, std::string_view what) const;

  const Node& data_;
  std::vector<std::int64_t> shape_, extent_;
  std::size_t element_bytes_;
  std::vector<Filter> filters_;  ///< in the order in which they were applied
  bool inflates_ = false;
  std::vector<std::byte> chunk_, scratch_;
};

}  // namespace attest::hdf5
