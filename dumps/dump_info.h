// What a dump says about itself: metadata of the file, its samples and its layers, as plain data. No HDF5 here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// One prompt: T tokens and N decode-step queries, with some of the model's layers.
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

/// The whole file but for its values.
struct DumpInfo {
  std::string path;
  std::int64_t file_bytes = 0;
  std::string model;
  int num_layers = 0;  ///< of the model; a dump may hold fewer
  AttentionShape shape;
  double softmax_scale = 0;         ///< as stored, else 1/sqrt(D)
  double logit_softcap = 0;         ///< 0: none
  std::string rope;                 ///< JSON of the rotary parameters; empty: not recorded
  std::string source;               ///< how it was captured; empty: not recorded
  std::string created;              ///< ISO 8601; empty: not recorded
  std::vector<SampleInfo> samples;  ///< in the order of their names' bytes
};

/// Where a tensor's values lie in the file.
struct TensorLocation {
  std::int64_t file_offset = -1;  ///< >= 0: all of it is contiguous from here and can be read with pread
  std::size_t bytes = 0;          ///< of the values once decoded
};

/// One layer of one sample.
struct LayerInfo {
  ElementType element_type = ElementType::float32;  ///< of q, k and v
  std::int64_t sliding_window = 0;                  ///< 0: none
  std::vector<float> sinks;                         ///< [Hq] learned sink logits; empty: none
  bool has_attention_mass = false;
  TensorLocation q, k, v;  ///< [N, Hq, D], [Hkv, T, D], [Hkv, T, Dv]
  std::string storage;     ///< "contiguous", "compact", "chunked" or "gzip": the slowest of the three tensors

  std::int64_t bytes() const { return static_cast<std::int64_t>(q.bytes + k.bytes + v.bytes); }
};

}  // namespace attest
