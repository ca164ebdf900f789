// int4_token_head on the device: a tile is a row. Formulas and sources: int4_token_head.cpp.
#include <algorithm>

#include "kernels/kv_formats/int4_signs.h"
#include "kernels/kv_formats/kv_format.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_tiles_cuda.cuh"
#include "kernels/quantize/rounding_cuda.cuh"

namespace attest {
namespace {

constexpr int kWords = kInt4MaxChannels / 32;

/// away(x) clamped to [0, 15].
__device__ int code_of(float x) {
  const float positive = x > 0.0f ? x : 0.0f;
  return kv_tiles::round_half_up(positive < 15.0f ? positive : 15.0f);
}

struct TokenHead {
  ElementType type;  // of the dump
  std::uint32_t signs[kWords];
  double undoing;  // 1/C, a power of 2

  template <int kSlots>
  __device__ void operator()(const kv_tiles::Tile& tile, const float (&x)[kSlots], double (&y)[kSlots]) const {
    float sign[kSlots], rotated[kSlots];
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      sign[s] = s < kWords && (signs[s % kWords] >> tile.lane & 1u) != 0 ? 1.0f : -1.0f;
      rotated[s] = __fmul_rn(x[s], sign[s]);
    }
    kv_tiles::hadamard(tile.lane, tile.width, rotated);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) rotated[s] = rounded_to(type, rotated[s]);
    const kv_tiles::Range range = kv_tiles::range_of(tile, rotated);
    const float scale = kv_tiles::larger(__fdiv_rn(__fsub_rn(range.hi, range.lo), 15.0f), 1e-6f),
                inverse = __fdiv_rn(1.0f, scale);
    const int zero_point = code_of(__fdiv_rn(-range.lo, scale));
    const auto shift = static_cast<float>(zero_point);
    const auto stored =
        static_cast<double>(__uint_as_float((__float_as_uint(scale) & ~15u) | static_cast<std::uint32_t>(zero_point)));
    // Multiples of `stored` are added exactly in double, and so are their factors.
    int factors[kSlots];
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      factors[s] = code_of(__fadd_rn(__fmul_rn(rotated[s], inverse), shift)) - zero_point;
    kv_tiles::hadamard_of_codes(tile.lane, tile.width, factors);
    kv_tiles::hadamard_of_slots(tile.width, factors);
#pragma unroll
    for (int s = 0; s < kSlots; ++s)
      y[s] = __dmul_rn(__dmul_rn(static_cast<double>(factors[s]), stored),
                       __dmul_rn(undoing, static_cast<double>(sign[s])));
  }
};

}  // namespace

void cuda_kv_int4_token_head(const KvRows& rows, const DeviceKvRows& on) {
  TokenHead steps{.type = rows.element_type, .signs = {}, .undoing = 1.0 / rows.channels};
  std::ranges::copy(int4_sign_words(), steps.signs);
  kv_tiles::launch_rows(on, steps);
}

}  // namespace attest
