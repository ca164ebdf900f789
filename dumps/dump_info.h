// Metadata of a dump: its file, samples and layers, as plain data without HDF5.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// The largest number of layers, heads, channels and tokens: what an int holds. Dumps and results files have the same
/// bound, so that the results of every dump can be read.
inline constexpr std::int64_t kLargestCount = std::numeric_limits<std::int32_t>::max();

/// The array of gradients with respect to a layer's outputs, at several scales of the outputs.
inline constexpr std::string_view kOutputGradient = "output_gradient";

/// Names of arrays that are stored, and read only on demand.
using ArrayNames = std::vector<std::string>;

inline bool contains(const ArrayNames& arrays, std::string_view name) {
  return std::find(arrays.begin(), arrays.end(), name) != arrays.end();
}

/// One prompt: T tokens and N queries, with some of the model's layers.
struct SampleInfo : SampleTokens {
  std::string name;
  std::string task;
  std::string document;                       ///< what it was made of, where samples share that; empty: not recorded
  std::optional<std::int64_t> prompt_length;  ///< tokens of the prompt; the rest were decoded
  std::vector<std::string> span_labels;       ///< [S], or empty when the dump has none
  std::vector<float> margin;                  ///< [N] logit of the answer's token minus the largest other; or empty
  ArrayNames arrays;                          ///< "tokens", "answer_token"
  std::vector<int> layers;                    ///< layer numbers present, ascending
};

/// Metadata of the file and its samples. softmax_scale is what is stored, else 1/sqrt(D).
struct DumpInfo : ModelAttention {
  std::string path;
  std::int64_t file_bytes = 0;
  std::int64_t stored_bytes = 0;  ///< bytes on disk; fewer than file_bytes if the file is sparse
  std::string model;
  int num_layers = 0;               ///< of the model; a dump may hold fewer
  std::string rope;                 ///< JSON of the rotary parameters; empty: not recorded
  std::string engine;               ///< program that computed `output`: "vllm 0.11.2"; empty: not recorded
  std::string kv_cache;             ///< its cache, as options of the selector kv_cache; empty: 16 bits, or not recorded
  std::string source;               ///< how it was captured; empty: not recorded
  std::string created;              ///< ISO 8601; empty: not recorded
  std::vector<SampleInfo> samples;  ///< sorted by name, bytewise
};

/// How the values of a data set are stored, the fastest to read first.
enum class Storage : std::uint8_t { contiguous, compact, chunked, gzip };

/// Location of a tensor's values in the file.
struct TensorLocation {
  std::int64_t file_offset = -1;  ///< >= 0: all values are contiguous from here and can be read with pread
  std::size_t bytes = 0;          ///< size of the decoded values
  Storage storage = Storage::contiguous;
};

/// One layer of one sample.
struct LayerInfo : LayerAttention {
  TensorLocation q, k, v;                          ///< [N, Hq, D], [Hkv, T, D], [Hkv, T, Dv]
  ArrayNames arrays;                               ///< "attention_mass", "output", "output_gradient", ...
  std::vector<double> gradient_scales;             ///< [A] of the outputs, for output_gradient
  ElementType output_type = ElementType::float32;  ///< of the array "output", where there is one

  std::int64_t bytes() const { return static_cast<std::int64_t>(q.bytes + k.bytes + v.bytes); }
  Storage storage() const { return std::max({q.storage, k.storage, v.storage}); }  ///< of the slowest of the three
};

}  // namespace attest
