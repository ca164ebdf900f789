// FFD thumbnail and residual of a key on the device. The codes are bit-identical to those of ffd_thumbnail.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/octet.cuh"
#include "kernels/device/octet_places.h"
#include "kernels/device/row_views.h"
#include "kernels/quantize/ffd_thumbnail.h"
#include "kernels/quantize/rounding_cuda.cuh"

namespace attest {

/// Key form for score_rows(): k^ and, if kRefines, the residual that the refinement adds to it.
template <bool kRefines>
struct FfdKeys {
  FfdQuantizer quantizer;
  ChannelTables<const float> scales;  ///< [RowBatch::params]
  int block = 0;                      ///< tokens per segment
  int num_parts = 3;
  int num_residual_parts = 1;  ///< e4m3 has 4 significant bits; int8 times its step needs 3 parts
  static constexpr bool has_residual = kRefines;

  __device__ void operator()(const KeyPlace& place, float (&key)[kOctet], float (&residual)[kOctet]) const {
    float scale[kOctet];
    load_floats(scales.row(place.params, place.token / block) + place.channel, scale);
    if (quantizer.arithmetic == QuantArithmetic::float32 && all_in_fast_range(scale)) {
      quantize<true>(scale, key, residual);
      return;
    }
    Octet own, rest, scales_of_key;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) own.x[i] = key[i], scales_of_key.x[i] = scale[i];
    quantize_slow_path(scales_of_key, own, rest);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) key[i] = own.x[i], residual[i] = rest.x[i];
  }

 private:
  __device__ float top() const { return static_cast<float>((1 << quantizer.bits) - 1); }

  /// Not inlined, so that this rare path does not slow down the common one.
  __device__ __noinline__ void quantize_slow_path(Octet scale, Octet& key, Octet& residual) const {
    if (quantizer.arithmetic == QuantArithmetic::dump)
      quantize_as_dump(scale.x, key.x, residual.x);
    else
      quantize<false>(scale.x, key.x, residual.x);
  }

  template <bool kPlain>
  __device__ void quantize(const float (&scale)[kOctet], float (&key)[kOctet], float (&residual)[kOctet]) const {
    const float highest = top(), z = highest / 2;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const float position = __fadd_rn(quotient<kPlain>(key[i], scale[i]), z);
      residual[i] = key[i];
      key[i] = __fmul_rn(rounded_code(position, 0, highest) - z, scale[i]);
      residual[i] = __fsub_rn(residual[i], key[i]);
    }
    if constexpr (kRefines) round_residual<kPlain>(scale, residual);
  }

  __device__ void quantize_as_dump(const float (&scale)[kOctet], float (&key)[kOctet],
                                   float (&residual)[kOctet]) const {
    const float highest = top(), z = highest / 2;
    const ElementType type = quantizer.element_type;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const float k = key[i], s = scale[i];
      const float position = s == 0 ? z : rounded_to(type, __fadd_rn(rounded_to(type, __fdiv_rn(k, s)), z));
      key[i] = __fmul_rn(rounded_code(position, 0, highest) - z, s);
      residual[i] = rounded_to(type, __fsub_rn(k, rounded_to(type, key[i])));
    }
    if constexpr (kRefines) round_residual<false>(scale, residual);
  }

  template <bool kPlain>
  __device__ void round_residual(const float (&scale)[kOctet], float (&residual)[kOctet]) const {
    if (quantizer.residual == FfdResidual::fp8) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) residual[i] = rounded_to_e4m3(residual[i]);
      return;
    }
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const float step = kPlain ? fast_quotient(scale[i] / 2, 127.0f) : __fdiv_rn(scale[i] / 2, 127.0f);
      residual[i] =
          step == 0 ? 0.0f : __fmul_rn(rounded_code(quotient<kPlain>(residual[i], step), -127.0f, 127.0f), step);
    }
  }
};

/// Scales of every block of every origin. Do not use those of a partial last block. The table is allocated in `arena`.
ChannelTables<float> cuda_ffd_block_scales(const FfdQuantizer& quantizer, const DeviceRows& rows,
                                           const DeviceKeyValues& kv, int block, DeviceArena& arena,
                                           cudaStream_t stream);

/// One scale per channel over the first full_blocks[p] blocks of origin origins[p], p < count. Each table has one
/// segment.
ChannelTables<float> cuda_ffd_sequence_scales(const FfdQuantizer& quantizer, const DeviceRows& rows,
                                              const DeviceKeyValues& kv, int block, const int* origins,
                                              const int* full_blocks, int count, DeviceArena& arena,
                                              cudaStream_t stream);

}  // namespace attest
