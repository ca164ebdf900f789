// nvfp4, nvfp4_4over6 on the device: a block is half a slot. Formulas and sources: nvfp4.cpp.
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_tiles_cuda.cuh"
#include "kernels/quantize/rounding_cuda.cuh"

namespace attest {
namespace {

constexpr int kBlock = 16;

struct BlockScale {
  float inverse;  // 1/(sf g), or 0
  double scale;   // sf g

  __device__ BlockScale(float largest, float global, float inverse_global, float inverse_top) {
    const float factor = rounded_to_e4m3(__fmul_rn(inverse_global, __fmul_rn(largest, inverse_top))),
                step = __fmul_rn(factor, global);
    inverse = step > 0 ? __fdiv_rn(1.0f, step) : 0.0f;
    scale = __dmul_rn(static_cast<double>(factor), static_cast<double>(global));
  }
  __device__ double decoded(float x) const {
    return __dmul_rn(static_cast<double>(rounded_to_e2m1(__fmul_rn(x, inverse))), scale);
  }
};

/// Of the 16 lanes of the block, in the order of lane_sum().
__device__ double squared_error(float x, double decoded) {
  const double error = __dsub_rn(decoded, static_cast<double>(x));
  double sum = __dmul_rn(error, error);
#pragma unroll
  for (int stride = kBlock / 2; stride > 0; stride /= 2)
    sum = __dadd_rn(sum, __shfl_xor_sync(kv_tiles::kAllLanes, sum, stride));
  return sum;
}

template <bool kFourOverSix>
struct Nvfp4 {
  template <int kSlots>
  __device__ void operator()(const kv_tiles::Tile& tile, const float (&x)[kSlots], double (&y)[kSlots]) const {
    const float inverse_global = __fdiv_rn(1.0f, tile.scale);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const float largest = kv_tiles::max_magnitude(x[s], kBlock - 1);
      const BlockScale six(largest, tile.scale, inverse_global, 1.0f / 6.0f);
      y[s] = six.decoded(x[s]);
      if constexpr (kFourOverSix) {
        const BlockScale four(largest, tile.scale, inverse_global, 1.0f / 4.0f);
        const double other = four.decoded(x[s]);
        if (squared_error(x[s], other) < squared_error(x[s], y[s])) y[s] = other;
      }
    }
  }
};

}  // namespace

void cuda_kv_nvfp4(const KvRows&, const DeviceKvRows& on) { kv_tiles::launch_blocks<4>(on, Nvfp4<false>{}); }
void cuda_kv_nvfp4_4over6(const KvRows&, const DeviceKvRows& on) { kv_tiles::launch_blocks<4>(on, Nvfp4<true>{}); }

}  // namespace attest
