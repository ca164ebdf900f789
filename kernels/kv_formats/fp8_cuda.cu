// fp8_e4m3, fp8_e5m2 on the device. Formulas and sources: fp8.cpp.
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_tiles_cuda.cuh"
#include "kernels/quantize/rounding_cuda.cuh"

namespace attest {
namespace {

template <float (*round)(float)>
struct Fp8 {
  template <int kSlots>
  __device__ void operator()(const kv_tiles::Tile& tile, const float (&x)[kSlots], double (&y)[kSlots]) const {
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      y[s] = __dmul_rn(static_cast<double>(round(__fdiv_rn(x[s], tile.scale))), static_cast<double>(tile.scale));
  }
};

}  // namespace

void cuda_kv_fp8_e4m3(const KvRows&, const DeviceKvRows& on) { kv_tiles::launch_blocks<4>(on, Fp8<rounded_to_e4m3>{}); }
void cuda_kv_fp8_e5m2(const KvRows&, const DeviceKvRows& on) { kv_tiles::launch_blocks<4>(on, Fp8<rounded_to_e5m2>{}); }

}  // namespace attest
