// Reads estimates of attention scores, and keys and values that replace the dump's, from a user's file (format:
// ../README.md). The file is as untrusted as a dump: everything that the study needs is checked before the study
// begins.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "dumps/attention_layer.h"
#include "dumps/base/input_file.h"
#include "dumps/dump_info.h"

namespace attest::hdf5 {
class Group;
}

namespace attest {

/// A layer of a dump for which estimates are wanted.
struct EstimatedLayer {
  std::string sample;
  int layer = 0;
  AttentionShape shape;
  std::int64_t num_queries = 0;  ///< N of the sample
  std::int64_t num_tokens = 0;   ///< T
};

/// Thread-safe.
class EstimateReader {
 public:
  /// Opens source.file and checks the data set of every layer: estimates [N, Hq or Hkv, ceil(T / width)], keys
  /// [Hkv, T, D], values [Hkv, T, Dv], of float16, float32 or float64, in memory of at most `allowed_memory` bytes (0:
  /// what memory_bound.h allows freely). Throws InputError.
  EstimateReader(EstimateSource source, std::span<const EstimatedLayer> layers, std::uint64_t allowed_memory = 0);

  /// Fills `out` with the estimates of one of these layers for all queries. Reuses its buffer if it is large enough.
  /// Throws InputError.
  void read(const std::string& sample, int layer, LayerEstimates& out) const;

 private:
  /// Location and shape of a layer's data set.
  struct Stored {
    std::array<std::int64_t, 3> shape{};
    std::int64_t bytes_per_value = 0;
    std::int64_t file_offset = -1;  ///< >= 0: contiguous from here
    std::size_t values() const { return static_cast<std::size_t>(shape[0] * shape[1] * shape[2]); }
    /// float16 is converted to float32.
    std::size_t bytes_in_memory() const { return values() * (bytes_per_value == 8 ? sizeof(double) : sizeof(float)); }
    std::size_t bytes_while_read() const { return bytes_in_memory() + (bytes_per_value == 2 ? values() * 2 : 0); }
  };

  /// The shape that a layer's data set has; `by_kv_head`: of estimates with one per KV head.
  std::array<std::int64_t, 3> shape_of(const EstimatedLayer& wanted, bool by_kv_head) const;
  /// `group`: of the layer.
  Stored find(const hdf5::Group& group, const EstimatedLayer& wanted) const;
  [[noreturn]] void fail_changed(const std::string& group) const;
  void read_stored(const std::string& group, const Stored& stored, std::span<std::byte> bytes) const;

  EstimateSource source_;
  InputFile file_;
  struct Layer {
    Stored stored;
    int query_heads_per_estimate = 1;
  };
  std::map<std::pair<std::string, int>, Layer> layers_;
};

}  // namespace attest
