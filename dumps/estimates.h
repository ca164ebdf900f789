// What a user's own method has written to a file: estimates of attention scores, one per token or per block of tokens,
// and the keys and values that it reads in place of the dump's.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string>

#include "dumps/layer_buffer.h"

namespace attest {

enum class EstimateKind : std::uint8_t { scores, keys, values };

/// A data set of this name is in every layer's group of an HDF5 file that is laid out like a dump.
struct EstimateSource {
  std::string file;
  std::string dataset;
  int width = 1;  ///< tokens per estimate, counted from token 0 of the sample
  EstimateKind kind = EstimateKind::scores;
  bool operator==(const EstimateSource&) const = default;
};

/// What one source has for one layer.
struct LayerEstimates {
  explicit LayerEstimates(std::pmr::memory_resource* memory) : values(memory) {}

  EstimateSource source;
  int num_heads = 0;                 ///< Hq or Hkv; of keys and values Hkv
  int query_heads_per_estimate = 1;  ///< query heads per estimate: 1 or G
  std::int64_t num_entries = 0;      ///< ceil(T / width); of keys and values T
  bool in_double = false;            ///< values are double, else float
  LayerBuffer values;                ///< [N, num_heads, num_entries]; of keys and values float [Hkv, T, D or Dv]

  double at(std::int64_t query, int head, std::int64_t entry) const {
    const auto i = static_cast<std::size_t>((query * num_heads + head) * num_entries + entry);
    return in_double ? reinterpret_cast<const double*>(values.data())[i]
                     : static_cast<double>(reinterpret_cast<const float*>(values.data())[i]);
  }
  /// Keys or values of a KV head from a token on: [T - token, dim].
  const float* vectors(int kv_head, std::int64_t token, int dim) const {
    return reinterpret_cast<const float*>(values.data()) + (kv_head * num_entries + token) * dim;
  }
};

}  // namespace attest
