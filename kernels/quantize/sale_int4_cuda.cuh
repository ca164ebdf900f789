// SALE 4-bit quantisation on the device. The codes are bit-identical to those of sale_int4.h.
#pragma once

#include "kernels/device/device_rows.h"
#include "kernels/device/octet.cuh"
#include "kernels/device/octet_places.h"
#include "kernels/device/row_views.h"
#include "kernels/quantize/sale_int4.h"

namespace attest {

__device__ inline float sale_code(float x, float absmax) {
  return absmax == 0 ? 0.0f : rintf(__fdiv_rn(__fmul_rn(x, 7.0f), absmax));
}
__device__ inline float sale_scale(float absmax) { return __fdiv_rn(absmax, 7.0f); }

/// Key form for score_rows(): the codes of key minus mean key, the mean over the keys visible to the query.
/// RowBatch::params is the index of the query.
struct SaleKeys {
  DeviceMatrix<const float> means;   ///< [queries, padded]
  DeviceMatrix<const float> absmax;  ///< [queries, tokens]
  int num_parts = 1;
  static constexpr int num_residual_parts = 0;
  static constexpr bool has_residual = false;

  __device__ void operator()(const KeyPlace& place, float (&key)[kOctet], float (&)[kOctet]) const {
    float mean[kOctet];
    load_floats(means.row(place.params) + place.channel, mean);
    const float maximum = __ldg(absmax.row(place.params) + place.token);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) key[i] = sale_code(__fsub_rn(key[i], mean[i]), maximum);
  }
};

/// Writes absmax[query][token]: the largest magnitude of (key - mean key of the query) over the visible keys that share
/// a scale with the token.
void cuda_sale_key_ranges(SaleKeyScale kind, const DeviceRows& rows, const DeviceKeyValues& kv,
                          const DeviceMatrix<const float>& means, const DeviceMatrix<float>& absmax,
                          cudaStream_t stream);

}  // namespace attest
