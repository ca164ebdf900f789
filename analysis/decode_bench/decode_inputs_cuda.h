// Queries, keys and values of a decode step in device memory: generated, or copied from a layer of a dump.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "analysis/decode_bench/kernel_session.h"
#include "kernels/device/buffers.h"

namespace attest {

struct DecodeInputs {
  KernelInputs what;
  double scale = 1;  ///< of the softmax
  DeviceBuffer q;    ///< [batch, Hq, D]
  DeviceBuffer k;    ///< [batch, Hkv, length, D]
  DeviceBuffer v;    ///< [batch, Hkv, length, Dv]

  std::int64_t pairs() const { return static_cast<std::int64_t>(what.batch) * what.shape.num_kv_heads; }
  std::int64_t rows() const { return static_cast<std::int64_t>(what.batch) * what.shape.num_query_heads; }
};

/// Bytes of q, k and v.
std::int64_t decode_input_bytes(const KernelInputs& what);

/// Random values with what real keys have: some channels that are much larger than the others, a sink at the first
/// tokens, and a few tokens of some blocks, in clusters, that lean towards one of the query heads. How many do, and how
/// far, differs between KV heads. A function of the seed.
DecodeInputs generated_inputs(const KernelInputs& what, std::uint64_t seed, cudaStream_t stream);

/// The layer's first query, with its keys and values tiled to `what.length`, for every sequence.
DecodeInputs inputs_of_layer(const KernelInputs& what, const AttentionLayer& layer, cudaStream_t stream);

}  // namespace attest
