// Estimates of attention scores that a user's own method has written to a file, one per token or per block of tokens.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string>

#include "dumps/layer_buffer.h"

namespace attest {

/// A data set of this name is in every layer's group of an HDF5 file that is laid out like a dump.
struct EstimateSource {
  std::string file;
  std::string dataset;
  int width = 1;  ///< tokens per estimate, counted from token 0 of the sample
  bool operator==(const EstimateSource&) const = default;
};

/// Estimates of one layer from one source.
struct LayerEstimates {
  explicit LayerEstimates(std::pmr::memory_resource* memory) : values(memory) {}

  EstimateSource source;
  int num_heads = 0;                 ///< Hq or Hkv
  int query_heads_per_estimate = 1;  ///< query heads per estimate: 1 or G
  std::int64_t num_entries = 0;      ///< ceil(T / width)
  bool in_double = false;            ///< values are double, else float
  LayerBuffer values;                ///< [N, num_heads, num_entries]

  double at(std::int64_t query, int head, std::int64_t entry) const {
    const auto i = static_cast<std::size_t>((query * num_heads + head) * num_entries + entry);
    return in_double ? reinterpret_cast<const double*>(values.data())[i]
                     : static_cast<double>(reinterpret_cast<const float*>(values.data())[i]);
  }
};

}  // namespace attest
