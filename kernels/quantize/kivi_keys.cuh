// KIVI's groups on the device, value for value those of kivi_groups.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/score_tiles.cuh"
#include "kernels/attention/value_tiles.cuh"
#include "kernels/quantize/kivi_groups.h"
#include "kernels/quantize/rounding.cuh"

namespace attest {

/// x^ of one element.
__device__ inline float kivi_dequantised(const KiviQuantizer& quantizer, float x, float lowest, float scale) {
  const float top = static_cast<float>((1 << quantizer.bits) - 1), divisor = scale == 0 ? 1.0f : scale;
  const ElementType type = quantizer.element_type;
  const float position = quantizer.arithmetic == QuantArithmetic::float32
                             ? __fdiv_rn(__fsub_rn(x, lowest), divisor)
                             : rounded_to(type, __fdiv_rn(rounded_to(type, __fsub_rn(x, lowest)), divisor));
  return __fadd_rn(__fmul_rn(rounded_code(position, 0, top), scale), lowest);
}

/// The form of a key for score_rows(): per channel over groups of tokens.
struct KiviKeys {
  KiviQuantizer quantizer;
  const float* lowest = nullptr;  ///< [num_origins, groups, padded]
  const float* scales = nullptr;
  int padded = 0;
  std::int64_t per_params = 0;    ///< elements of one origin's table
  int num_parts = 3;
  static constexpr int num_residual_parts = 0;
  static constexpr bool has_residual = false;

  __device__ void operator()(const KeyPlace& place, float (&key)[kOctet], float (&)[kOctet]) const {
    const std::int64_t at = place.params * per_params + static_cast<std::int64_t>(place.token / quantizer.group) * padded + place.channel;
    float low[kOctet], scale[kOctet];
    load_floats(lowest + at, low);
    load_floats(scales + at, scale);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) key[i] = kivi_dequantised(quantizer, key[i], low[i], scale[i]);
  }
};

/// The form of a value for accumulate_levels(): per token over groups of channels.
struct KiviValues {
  KiviQuantizer quantizer;
  const float2* groups = nullptr;  ///< [values on the device, Dv / group]: lowest, scale
  int groups_per_token = 0;
  static constexpr bool exact = false;

  __device__ void operator()(const ValuePlace& place, float (&value)[kOctet]) const {
    const float2* row = groups + place.value * groups_per_token;
    float2 group{};
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      if (i == 0 || (place.channel + i) % quantizer.group == 0)
        group = __ldg(row + min((place.channel + i) / quantizer.group, groups_per_token - 1));
      value[i] = kivi_dequantised(quantizer, value[i], group.x, group.y);
    }
  }
};

/// lowest, scales [num_origins, groups of max_length, padded].
void kivi_key_groups(const KiviQuantizer& quantizer, const DeviceRows& rows, const DeviceKeyValues& kv, float* lowest, float* scales,
                     cudaStream_t stream);

/// groups [tokens, Dv / group] of `tokens` rows of kv.values.
void kivi_value_groups(const KiviQuantizer& quantizer, const DeviceKeyValues& kv, std::int64_t tokens, float2* groups, cudaStream_t stream);

}  // namespace attest
