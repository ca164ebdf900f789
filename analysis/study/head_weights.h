// Head weights of a model in a file: `attest weights` writes it, `attest run --weights` reads it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

inline constexpr std::string_view kHeadWeightsFormat = "attest-head-weights";
inline constexpr int kHeadWeightsVersion = 1;

struct HeadWeights {
  std::string path;
  std::string model;
  int num_layers = 0, num_query_heads = 0;
  int prompts = 0;                           ///< that they are averages over
  std::map<int, std::vector<float>> layers;  ///< [Hq] logits per unit of a head's output, by the layer's number
};

/// Throws InputError that names the file, the place in it, what it expected and what it found.
HeadWeights read_head_weights(const std::string& path);

}  // namespace attest
