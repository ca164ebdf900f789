// Metadata of a dump: its file, samples and layers, as plain data without HDF5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// Of layers, heads, channels and tokens: what an int holds. Dumps and results files have the same bound, so that the
/// results of every dump can be read.
inline constexpr std::int64_t kLargestCount = std::numeric_limits<std::int32_t>::max();

/// One prompt: T tokens and N queries, with some of the model's layers.
struct SampleInfo {
  std::string name;
  std::string task;
  std::int64_t num_tokens = 0;                ///< T
  std::optional<std::int64_t> prompt_length;  ///< tokens of the prompt; the rest were decoded
  std::vector<std::int64_t> query_positions;  ///< [N], strictly ascending, each in [0, T)
  std::vector<TokenSpan> spans;               ///< [S], evidence in the context, each within [0, T)
  std::vector<std::string> span_labels;       ///< [S], or empty when the dump has none
  bool has_tokens = false;                    ///< token ids are stored
  std::vector<int> layers;                    ///< layer numbers present, ascending
};

/// Metadata of the file and its samples.
struct DumpInfo {
  std::string path;
  std::int64_t file_bytes = 0;
  std::int64_t stored_bytes = 0;  ///< of them on disk; fewer if the file is sparse
  std::string model;
  int num_layers = 0;  ///< of the model; a dump may hold fewer
  AttentionShape shape;
  double softmax_scale = 0;         ///< as stored, else 1/sqrt(D)
  double logit_softcap = 0;         ///< 0: none
  std::string rope;                 ///< JSON of the rotary parameters; empty: not recorded
  std::string source;               ///< how it was captured; empty: not recorded
  std::string created;              ///< ISO 8601; empty: not recorded
  std::vector<SampleInfo> samples;  ///< sorted by name, bytewise
};

/// Location of a tensor's values in the file.
struct TensorLocation {
  std::int64_t file_offset = -1;  ///< >= 0: all values are contiguous from here and can be read with pread
  std::size_t bytes = 0;          ///< size of the decoded values
};

/// One layer of one sample.
struct LayerInfo {
  ElementType element_type = ElementType::float32;  ///< of q, k and v
  std::int64_t sliding_window = 0;                  ///< 0: none
  std::vector<float> sinks;                         ///< [Hq] learned sink logits; empty: none
  bool has_attention_mass = false;
  TensorLocation q, k, v;  ///< [N, Hq, D], [Hkv, T, D], [Hkv, T, Dv]
  std::string storage;     ///< of the slowest of the three tensors: "contiguous", "compact", "chunked" or "gzip"

  std::int64_t bytes() const { return static_cast<std::int64_t>(q.bytes + k.bytes + v.bytes); }
};

}  // namespace attest
