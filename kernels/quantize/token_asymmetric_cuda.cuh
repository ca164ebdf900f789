// Asymmetric quantisation per key on the device, bit-identical to token_asymmetric.h.
#pragma once

#include "kernels/device/octet.cuh"
#include "kernels/device/octet_places.h"
#include "kernels/quantize/rounding_cuda.cuh"
#include "kernels/quantize/token_asymmetric.h"

namespace attest {

template <bool kPlain>
__device__ void token_dequantise(float lowest, float scale, float top, float (&x)[kOctet]) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    x[i] = __fadd_rn(
        __fmul_rn(rounded_code(quotient<kPlain>(__fsub_rn(x[i], lowest), scale == 0 ? 1.0f : scale), 0, top), scale),
        lowest);
}

/// Replaces channels x of a token by x^. range: the minimum (.x) and maximum (.y) over the token's channels.
__device__ inline void token_dequantise(const TokenAsymmetricQuantizer& quantizer, float2 range, float (&x)[kOctet]) {
  const float top = static_cast<float>((1 << quantizer.bits) - 1);
  const float scale = __fdiv_rn(fmaxf(__fsub_rn(range.y, range.x), quantizer.min_range), top);
  if (in_fast_range(scale))
    token_dequantise<true>(range.x, scale, top, x);
  else
    token_dequantise<false>(range.x, scale, top, x);
}

/// Key form for score_rows().
struct TokenAsymmetricKeys {
  TokenAsymmetricQuantizer quantizer;
  const float2* ranges = nullptr;  ///< [params, keys on the device] (min, max) over channels
  std::int64_t per_params = 0;     ///< ranges per RowBatch::params; 0: all batches share one set
  int num_parts = 3;
  static constexpr int num_residual_parts = 0;
  static constexpr bool has_residual = false;

  __device__ void operator()(const KeyPlace& place, float (&key)[kOctet], float (&)[kOctet]) const {
    const float2 range = __ldg(ranges + place.params * per_params + place.key);
    token_dequantise(quantizer, range, key);
  }
};

}  // namespace attest
