// Safetensors files with scales.
#pragma once

#include <fstream>
#include <initializer_list>
#include <string>

#include "tests/dumps/scratch_folder.h"

namespace attest::test {

/// A safetensors file of `header` and `data`.
inline std::string safetensors(const ScratchFolder& folder, const std::string& header, const std::string& data) {
  const std::string path = folder.file("scales.safetensors");
  std::ofstream file(path, std::ios::binary);
  for (int byte = 0; byte < 8; ++byte) file.put(static_cast<char>(header.size() >> (8 * byte)));
  file << header << data;
  return path;
}

inline std::string bytes_of(std::initializer_list<float> numbers) {
  std::string bytes;
  for (const float number : numbers) bytes.append(reinterpret_cast<const char*>(&number), 4);
  return bytes;
}

/// Scales of keys of layers 0 and 3, there one per KV head of two, and of values of layer 0.
inline std::string scales_of_two_layers(const ScratchFolder& folder) {
  return safetensors(
      folder,
      R"({"__metadata__": {"format": "pt"},)"
      R"("model.layers.0.self_attn.k_scale": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},)"
      R"("model.layers.0.self_attn.attn.v_scale": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},)"
      R"("model.layers.3.self_attn.k_proj.k_scale": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},)"
      R"("model.layers.3.mlp.weight": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}})",
      bytes_of({0.5f, 2, 3, 4}));
}

}  // namespace attest::test
