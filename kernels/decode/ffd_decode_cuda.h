// FFD decode: attention of one new token of every sequence over a quantised cache, selector and computer in one launch.
// Source: Faster Than Flash, "Kernel Optimization" and Algorithm 1; the rules are those of selectors/ffd.cpp with
// residual = fp8, gqa = union.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "kernels/decode/base/ffd_deal.h"
#include "kernels/decode/ffd_cache_cuda.h"

namespace attest {

/// Enqueues on `stream`. Neither allocates nor waits for the device; safe to capture in a CUDA graph, and bitwise
/// repeatable. Throws InputError as check_options() does, and on pointers that are not aligned (FfdDecodeCall). `deal`:
/// of deal_ffd_decode(), or null. Results of different deals differ by rounding.
void cuda_ffd_decode(const FfdCache& cache, const FfdDecodeOptions& options, const FfdDecodeCall& call,
                     cudaStream_t stream, const FfdDeal* deal = nullptr);

/// Deals the current device's thread blocks to heads that keep very different shares, which are known from calls
/// before: kept_share [batch, Hkv], from 0 to 1, of sequences of `tokens` tokens. A KV head with more work has more
/// thread blocks, so that all end at about the same time. There is no deal, and calls are as without one, where it
/// would save little, or there are more KV heads of all sequences than thread blocks. Calls follow a deal in
/// `fragments` with 2 bits and up to 8 query heads per KV head, where the sequences are of one length, FfdBalance is
/// not `balanced`, and no rule waits for all maxima; the tokens may be others than those that it was made for. Throws
/// InputError on another number of shares, and on shares beyond 0 and 1.
FfdDeal deal_ffd_decode(const FfdCache& cache, std::span<const float> kept_share, std::int64_t tokens);

/// The scan alone.
void cuda_ffd_scan(const FfdCache& cache, const FfdDecodeOptions& options, const FfdScanCall& call,
                   cudaStream_t stream);

}  // namespace attest
