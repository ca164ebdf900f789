// Reads estimates of attention scores from a file of the user's own (format: README.md). As untrusted as a dump: what
// the study needs of it is checked before the study begins.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dumps/attention_layer.h"
#include "dumps/base/input_file.h"
#include "dumps/dump_info.h"

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
  /// Opens source.file and checks the data set of every layer: [N, Hq or Hkv, ceil(T / width)] of float16, float32 or
  /// float64. Throws InputError.
  EstimateReader(EstimateSource source, std::span<const EstimatedLayer> layers);

  /// Fills `out` with the estimates of one of these layers, of all queries; keeps its buffer where it is large enough.
  /// Throws InputError.
  void read(const std::string& sample, int layer, LayerEstimates& out) const;

 private:
  /// Where a layer's data set lies, and what it holds.
  struct Stored {
    std::int64_t num_queries = 0, num_heads = 0, heads_that_share = 0, num_entries = 0, bytes_per_value = 0;
    std::int64_t file_offset = -1;  ///< >= 0: contiguous from here
    std::size_t values() const { return static_cast<std::size_t>(num_queries * num_heads * num_entries); }
  };

  Stored find(const EstimatedLayer& wanted) const;
  void read_stored(const std::string& group, const Stored& stored, std::span<std::byte> bytes) const;

  EstimateSource source_;
  InputFile file_;
  std::map<std::pair<std::string, int>, Stored> layers_;
};

}  // namespace attest
