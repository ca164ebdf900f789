// What the selector `kv_cache` shares with its CUDA code.
#pragma once

#include <memory>

#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/kv_store.h"

namespace attest {

std::shared_ptr<const CudaSelector> make_cuda_kv_cache(const KvStore& store);

}  // namespace attest
