// Scales of keys and values as a checkpoint carries them: a safetensors file with tensors *layers.N.*k_scale and
// *layers.N.*v_scale, each one number, or one per KV head. The file is untrusted.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace attest {

struct ScalesFile {
  std::string path;
  std::map<int, std::vector<float>> keys, values;  ///< by layer: one number, or one per KV head; finite and above 0

  /// Throws InputError that names file, tensor, what it expected and what it found.
  explicit ScalesFile(const std::string& path);
};

}  // namespace attest
