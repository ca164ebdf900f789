// SALE's 4-bit integers on the device, code for code those of sale_int4.h.
#pragma once

#include "kernels/attention/score_tiles.cuh"
#include "kernels/quantize/sale_int4.h"

namespace attest {

__device__ inline float sale_code(float x, float absmax) {
  return absmax == 0 ? 0.0f : rintf(__fdiv_rn(__fmul_rn(x, 7.0f), absmax));
}
__device__ inline float sale_scale(float absmax) { return __fdiv_rn(absmax, 7.0f); }

/// The form of a key for score_rows(): codes of its distance to the mean key of a query, of which RowBatch::params is
/// the number.
struct SaleKeys {
  const float* means = nullptr;   ///< [queries, padded]
  const float* absmax = nullptr;  ///< [queries, stride]
  int padded = 0;
  std::int64_t stride = 0;
  int num_parts = 1;
  static constexpr int num_residual_parts = 0;
  static constexpr bool has_residual = false;

  __device__ void operator()(const KeyPlace& place, float (&key)[kOctet], float (&)[kOctet]) const {
    float mean[kOctet];
    load_floats(means + static_cast<std::int64_t>(place.params) * padded + place.channel, mean);
    const float most = __ldg(absmax + place.params * stride + place.token);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) key[i] = sale_code(__fsub_rn(key[i], mean[i]), most);
  }
};

/// absmax [rows / G, stride]: of what a query sees of each key less the query's mean key (means [rows / G, padded]),
/// over the keys that share a scale.
void sale_key_ranges(SaleKeyScale kind, const DeviceRows& rows, const DeviceKeyValues& kv, const float* means,
                     float* absmax, cudaStream_t stream);

}  // namespace attest
