// The low part of scores, which their float32 lacks (double score minus float32 score), for short rows. The CPU's
// scores are double. In a short row, a single pair of blocks that float32 ties or swaps changes the rank correlation
// visibly. Short rows are cheap enough to recompute their products in double on CUDA cores.
#pragma once

#include <type_traits>

#include "kernels/attention/score_targets.cuh"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"

namespace attest {

/// Float32 keys, and their low part, which float32 lacks: the scores are those of the sum, which is nearly a double.
struct KeysWithLow {
  const float* low = nullptr;  ///< as the keys, [heads, tokens, head_dim]
  int head_dim = 0;

  __device__ void operator()(const KeyPlace& place, float (&)[kOctet], float (&residual)[kOctet]) const {
    load_octet(ElementType::float32, low, place.key * head_dim + place.channel, head_dim - place.channel, head_dim,
               residual);
  }
};

namespace low_scores_detail {

inline constexpr int kThreads = 256;

/// One warp per token; it loops over the rows of the batch.
template <class Form>
__global__ void __launch_bounds__(kThreads) low_scores_kernel(DeviceRows rows, DeviceKeyValues kv, const float* queries,
                                                              const Form form, ScoreTargets targets) {
  const RowBatch batch = rows.batches[blockIdx.y];
  const int token = (blockIdx.x * kThreads + static_cast<int>(threadIdx.x)) / 32,
            lane = static_cast<int>(threadIdx.x) % 32;
  const KeyOrigin origin = rows.origins[batch.origin];
  const std::int64_t key_index = static_cast<std::int64_t>(origin.kv_head) * kv.tokens + origin.first_key + token;
  for (int row = batch.first_row; row < batch.first_row + batch.num_rows; ++row) {
    if (token >= rows.visible[row]) continue;
    const std::int64_t at = row * rows.stride + token;
    if (targets.limit != nullptr && token >= targets.limit[row]) {
      if (lane == 0) targets.low[at] = targets.exact_low[at];
      continue;
    }
    double dot = 0;
    for (int channel = lane * kOctet; channel < kv.head_dim; channel += 32 * kOctet) {
      float key[kOctet], residual[kOctet], query[kOctet];
      load_octet(kv.type, kv.keys, key_index * kv.head_dim + channel, kv.head_dim - channel, kv.head_dim, key);
      form(KeyPlace{batch.params, token, key_index, channel}, key, residual);
      load_floats(queries + static_cast<std::int64_t>(row) * padded_channels(kv.head_dim) + channel, query);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        double wide = static_cast<double>(key[i]);
        if constexpr (std::is_same_v<Form, KeysWithLow>) wide += static_cast<double>(residual[i]);
        if (channel + i < kv.head_dim) dot += static_cast<double>(query[i]) * wide;
      }
    }
    dot = warp_reduce(dot, Plus{});
    const double s = static_cast<double>(kv.scale) * dot, cap = kv.softcap;
    if (lane == 0)
      targets.low[at] =
          static_cast<float>((cap > 0 ? cap * tanh(s / cap) : s) - static_cast<double>(targets.scores[at]));
  }
}

}  // namespace low_scores_detail

/// Fills targets.low. targets.scores must already be computed.
template <class Form>
void low_scores(const DeviceRows& rows, const QueryParts& queries, const DeviceKeyValues& kv, const Form& form,
                const ScoreTargets& targets, cudaStream_t stream) {
  using namespace low_scores_detail;
  const dim3 grid((rows.max_length + kThreads / 32 - 1) / (kThreads / 32), rows.num_batches);
  low_scores_kernel<<<grid, kThreads, 0, stream>>>(rows, kv, queries.values, form, targets);
  ATTEST_CUDA_LAUNCHED(low_scores_kernel);
}

}  // namespace attest
