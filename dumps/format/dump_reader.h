// Reads attention dumps (format: README.md). Files are untrusted: opening checks all metadata, memory stays within
// what the size of the file justifies, and whatever is wrong becomes an InputError of one sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"
#include "dumps/dump_info.h"

namespace attest {

/// Thread-safe: threads may read different layers of one reader at the same time.
class DumpReader {
 public:
  /// Checks the metadata of every sample and layer; no value of q, k or v is touched. Throws InputError.
  explicit DumpReader(const std::string& path);
  ~DumpReader();
  DumpReader(DumpReader&&) noexcept;
  DumpReader& operator=(DumpReader&&) noexcept;

  const DumpInfo& info() const;

  /// `sample` indexes info().samples, `layer` is a number in its `layers`; otherwise std::out_of_range.
  const LayerInfo& layer_info(std::size_t sample, int layer) const;

  /// Fills every field of `out`, all queries, and keeps its buffers when they are large enough. Returns whether all
  /// values are finite, which is looked up while they are in the cache. Throws InputError when the values cannot be
  /// read.
  bool read_layer(std::size_t sample, int layer, AttentionLayer& out, int threads = 4) const;

  /// Token ids [T]; empty when the sample has none.
  std::vector<std::int32_t> read_tokens(std::size_t sample) const;

  /// Column sums of softmax over the prompt's queries [Hq, T]; empty when the layer has none.
  std::vector<float> read_attention_mass(std::size_t sample, int layer) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Keeps only the rows `which` (strictly ascending indices below N) of q, of the estimates and of query_positions.
void select_queries(AttentionLayer& layer, std::span<const std::size_t> which);

}  // namespace attest
