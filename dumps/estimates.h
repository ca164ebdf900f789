// Estimates of attention scores that come from a file: what a method of one's own says of every token, or block of
// tokens.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string>

#include "dumps/layer_buffer.h"

namespace attest {

/// A data set of every layer of an HDF5 file that is laid out like a dump.
struct EstimateSource {
  std::string file;
  std::string dataset;
  int width = 1;  ///< tokens that share an estimate, counted from token 0 of the sample
  bool operator==(const EstimateSource&) const = default;
};

/// Estimates of one layer from one source.
struct LayerEstimates {
  explicit LayerEstimates(std::pmr::memory_resource* memory) : values(memory) {}

  EstimateSource source;
  int num_heads = 0;             ///< Hq or Hkv
  int heads_that_share = 1;      ///< query heads for which each of them stands: 1 or G
  std::int64_t num_entries = 0;  ///< ceil(T / width)
  bool in_double = false;        ///< values are double, else float
  LayerBuffer values;            ///< [N, num_heads, num_entries]

  double at(std::int64_t query, int head, std::int64_t entry) const {
    const auto i = static_cast<std::size_t>((query * num_heads + head) * num_entries + entry);
    return in_double ? reinterpret_cast<const double*>(values.data())[i]
                     : static_cast<double>(reinterpret_cast<const float*>(values.data())[i]);
  }
};

}  // namespace attest
