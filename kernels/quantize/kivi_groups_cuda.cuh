// KIVI group quantisation on the device, bit-identical to kivi_groups.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/octet.cuh"
#include "kernels/device/octet_places.h"
#include "kernels/device/row_views.h"
#include "kernels/quantize/kivi_groups.h"
#include "kernels/quantize/rounding_cuda.cuh"

namespace attest {

/// Replaces x by x^. Element i belongs to a group with minimum lowest[i] and scale scale[i].
template <bool kPlain>
__device__ void kivi_dequantise(const KiviQuantizer& quantizer, const float (&lowest)[kOctet],
                                const float (&scale)[kOctet], float (&x)[kOctet]) {
  const float top = static_cast<float>((1 << quantizer.bits) - 1);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    const float position = quotient<kPlain>(__fsub_rn(x[i], lowest[i]), scale[i] == 0 ? 1.0f : scale[i]);
    x[i] = __fadd_rn(__fmul_rn(rounded_code(position, 0, top), scale[i]), lowest[i]);
  }
}

/// Scale of a group with this minimum and maximum.
__device__ inline float kivi_scale(const KiviQuantizer& quantizer, float lowest, float highest) {
  const float top = static_cast<float>((1 << quantizer.bits) - 1), range = __fsub_rn(highest, lowest);
  if (quantizer.arithmetic == QuantArithmetic::float32) return __fdiv_rn(range, top);
  return rounded_to(quantizer.element_type, __fdiv_rn(rounded_to(quantizer.element_type, range), top));
}

/// Code of an element under QuantArithmetic::dump.
__device__ inline float kivi_code_as_dump(const KiviQuantizer& quantizer, float lowest, float scale, float x) {
  const ElementType type = quantizer.element_type;
  const float position = rounded_to(type, __fdiv_rn(rounded_to(type, __fsub_rn(x, lowest)), scale == 0 ? 1.0f : scale));
  return rounded_code(position, 0, static_cast<float>((1 << quantizer.bits) - 1));
}

__device__ inline void kivi_dequantise_as_dump(const KiviQuantizer& quantizer, const float (&lowest)[kOctet],
                                               const float (&scale)[kOctet], float (&x)[kOctet]) {
#pragma unroll
  for (int i = 0; i < kOctet; ++i)
    x[i] = __fadd_rn(__fmul_rn(kivi_code_as_dump(quantizer, lowest[i], scale[i], x[i]), scale[i]), lowest[i]);
}

/// Not inlined, so that this rare path does not slow down the common one.
static __device__ __noinline__ Octet kivi_dequantise_slow_path(const KiviQuantizer quantizer, const Octet lowest,
                                                               const Octet scale, Octet octet) {
  if (quantizer.arithmetic == QuantArithmetic::dump)
    kivi_dequantise_as_dump(quantizer, lowest.x, scale.x, octet.x);
  else
    kivi_dequantise<false>(quantizer, lowest.x, scale.x, octet.x);
  return octet;
}

__device__ inline void kivi_dequantise(const KiviQuantizer& quantizer, const float (&lowest)[kOctet],
                                       const float (&scale)[kOctet], float (&x)[kOctet]) {
  if (quantizer.arithmetic == QuantArithmetic::float32 && all_in_fast_range(scale)) {
    kivi_dequantise<true>(quantizer, lowest, scale, x);
    return;
  }
  Octet low, steps, octet;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) low.x[i] = lowest[i], steps.x[i] = scale[i], octet.x[i] = x[i];
  octet = kivi_dequantise_slow_path(quantizer, low, steps, octet);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) x[i] = octet.x[i];
}

/// Key form for score_rows(): quantised per channel over groups of tokens.
struct KiviKeys {
  KiviQuantizer quantizer;
  ChannelTables<const float> lowest, scales;  ///< [RowBatch::params], one segment per group
  int num_parts = 3;
  static constexpr int num_residual_parts = 0;
  static constexpr bool has_residual = false;

  __device__ void operator()(const KeyPlace& place, float (&key)[kOctet], float (&)[kOctet]) const {
    const int group = place.token / quantizer.group;
    float low[kOctet], scale[kOctet];
    load_floats(lowest.row(place.params, group) + place.channel, low);
    load_floats(scales.row(place.params, group) + place.channel, scale);
    kivi_dequantise(quantizer, low, scale, key);
  }
};

/// Value form for sweep_in_runs(): quantised per token over groups of channels.
struct KiviValues {
  KiviQuantizer quantizer;
  const float2* groups = nullptr;  ///< [values on the device, Dv / group]: lowest, scale
  int groups_per_token = 0;
  static constexpr bool exact = false;

  __device__ void operator()(const ValuePlace& place, float (&value)[kOctet]) const {
    const float2* row = groups + place.value * groups_per_token;
    const int last = groups_per_token - 1;
    float low[kOctet], scale[kOctet];
    float2 group = __ldg(row + min(place.channel / quantizer.group, last));
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      if (quantizer.group % kOctet != 0) group = __ldg(row + min((place.channel + i) / quantizer.group, last));
      low[i] = group.x;
      scale[i] = group.y;
    }
    kivi_dequantise(quantizer, low, scale, value);
  }
};

/// Key form with the groups of every origin. RowBatch::params must be the origin. The tables are allocated in `arena`.
KiviKeys cuda_kivi_keys(const KiviQuantizer& quantizer, const DeviceRows& rows, const DeviceKeyValues& kv,
                        DeviceArena& arena, cudaStream_t stream);

/// Writes (lowest, scale) of the first `vectors` values to groups [vectors, Dv / group].
void cuda_kivi_value_groups(const KiviQuantizer& quantizer, const DeviceKeyValues& kv, std::int64_t vectors,
                            float2* groups, cudaStream_t stream);

}  // namespace attest
