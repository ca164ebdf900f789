// A data set of an untrusted HDF5 file: its shape, type and location, and reading its values after a check that the
// file can hold that many. Callers hold a Lock or run in a guarded child.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dumps/dump_info.h"
#include "dumps/element_type.h"
#include "dumps/hdf5/chunk_reader.h"
#include "dumps/hdf5/node.h"

namespace attest::hdf5 {

class Dataset : public Node {
 public:
  /// Fails when the node is not a data set, or when its values are in another file, were never written, need an
  /// unavailable filter, or are more than the file can hold.
  explicit Dataset(Node node);

  const std::vector<std::int64_t>& shape() const { return shape_; }
  const TensorLocation& location() const { return location_; }

  /// `meaning` names the axes in the error: "num_kv_heads, num_tokens, head_dim".
  void expect_shape(std::span<const std::int64_t> expected, std::string_view meaning) const;

  /// Fails unless the elements are little-endian float16, bfloat16 or float32, in one of the accepted encodings.
  ElementType element_type() const;
  /// Fails unless the elements are float16, float32 or float64, little endian; returns the bytes of one.
  std::int64_t expect_reals() const;
  /// Fails unless the elements are integers of at most 64 bits.
  void expect_integers() const;

  /// Fails unless it is a list of integers or floats.
  std::vector<double> read_doubles() const;
  std::vector<std::int64_t> read_integers() const;
  std::vector<std::string> read_strings() const;
  /// Fails unless the elements are float32.
  std::vector<float> read_floats() const;

  /// Passes the values to `receive` as stored, row-major, in slabs of whole entries of the first axis.
  void read_slabs(const std::function<void(std::span<const std::byte>)>& receive) const;

 private:
  void read_shape();
  void check_contiguous();
  void check_chunked(const Handle& creation);
  bool is_chunked() const { return location_.storage >= Storage::chunked; }
  ChunkReader chunk_reader(const Handle& creation) const;
  void read_all(hid_t memory_type, void* target) const;
  std::int64_t count() const;  ///< elements

  Handle type_;
  std::vector<std::int64_t> shape_;
  TensorLocation location_;
  std::int64_t rows_per_slab_ = 1;  ///< of the first axis; those of a chunk, so that no chunk is decoded twice
};

/// "[2, 4096, 128]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace attest::hdf5
