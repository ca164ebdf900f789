// fp8_ds_mla on the device. Formulas and sources: fp8_ds_mla.cpp.
#include "kernels/kv_formats/kv_format.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_tiles_cuda.cuh"
#include "kernels/quantize/rounding_cuda.cuh"

namespace attest {
namespace {

constexpr int kTile = 128;

/// 2^ceil(log2(x)) of a normal x.
__device__ float power_of_two_from(float x) {
  return __uint_as_float((__float_as_uint(x) + 0x007FFFFFu) & 0x7F800000u);
}

struct LatentTiles {
  int latent;  // channels

  template <int kSlots>
  __device__ void operator()(const kv_tiles::Tile& tile, const float (&x)[kSlots], double (&y)[kSlots]) const {
    float largest = 0;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) largest = fmaxf(largest, fabsf(x[s]));
    const float peak = kv_tiles::max_magnitude(largest, 31);
    const float scale = power_of_two_from(kv_tiles::larger(__fdiv_rn(peak, 448.0f), 1e-4f));
    const bool stays = tile.first >= latent;
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      y[s] = stays
                 ? static_cast<double>(x[s])
                 : __dmul_rn(static_cast<double>(rounded_to_e4m3(__fdiv_rn(x[s], scale))), static_cast<double>(scale));
  }
};

}  // namespace

void cuda_kv_fp8_ds_mla(const KvRows& rows, const DeviceKvRows& on) {
  kv_tiles::launch<kTile / 32>(on, on.num_tokens, rows.channels, kTile, LatentTiles{rows.shared_values});
}

}  // namespace attest
