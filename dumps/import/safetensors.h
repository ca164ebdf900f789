// Reads safetensors files: 8 bytes length, a JSON header of that length, the values.
// https://huggingface.co/docs/safetensors, "Format"
#pragma once

#include <memory>
#include <string>

#include "dumps/import/tensor_source.h"

namespace attest {

/// Throws InputError when the header is not what the format says, or disagrees with itself or the file's size.
std::unique_ptr<TensorSource> open_safetensors(const std::string& path);

}  // namespace attest
