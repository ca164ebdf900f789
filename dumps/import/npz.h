// Reads NumPy archives: a zip file whose members NAME.npy are arrays, stored or deflated.
#pragma once

#include <memory>
#include <string>

#include "dumps/import/tensor_source.h"

namespace attest {

/// Throws InputError when archive or array headers are malformed, or disagree with each other or the file's size.
std::unique_ptr<TensorSource> open_npz(const std::string& path);

}  // namespace attest
