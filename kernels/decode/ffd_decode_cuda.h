// FFD decode: attention of one new token of every sequence over a quantised cache, selector and computer in one launch.
// Source: Faster Than Flash, "Kernel Optimization" and Algorithm 1; the rules are those of selectors/ffd.cpp with
// residual = fp8, gqa = union.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/ffd_cache_cuda.h"

namespace attest {

/// Enqueues on `stream`. Neither allocates nor waits for the device; safe to capture in a CUDA graph, and bitwise
/// repeatable. Throws InputError as check_options() does, and on pointers that are not aligned (FfdDecodeCall).
void cuda_ffd_decode(const FfdCache& cache, const FfdDecodeOptions& options, const FfdDecodeCall& call,
                     cudaStream_t stream);

/// The scan alone.
void cuda_ffd_scan(const FfdCache& cache, const FfdDecodeOptions& options, const FfdScanCall& call,
                   cudaStream_t stream);

}  // namespace attest
