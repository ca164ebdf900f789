// turboquant4, turboquant3 on the device: a tile is a row. Formulas and sources: turboquant.cpp.
#include <cmath>

#include "kernels/kv_formats/kv_format.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_tiles_cuda.cuh"
#include "kernels/kv_formats/turboquant_codebook.h"

namespace attest {
namespace {

template <int kBits>
struct Keys {
  TurboquantCodebook<kBits> book;
  double root;  // 1/sqrt(C)

  template <int kSlots>
  __device__ void operator()(const kv_tiles::Tile& tile, const float (&x)[kSlots], double (&y)[kSlots]) const {
    const float norm = __double2float_rn(__dsqrt_rn(kv_tiles::sum_of_squares(tile, x)));
    const float divisor = __fadd_rn(norm, 1e-8f), factor = __double2float_rn(root);
    float c[kSlots];
#pragma unroll
    for (int s = 0; s < kSlots; ++s) c[s] = __fdiv_rn(x[s], divisor);
    kv_tiles::hadamard(tile.lane, tile.width, c);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const float position = __fmul_rn(c[s], factor);
      c[s] = book.centroids[0];
#pragma unroll
      for (int i = 0; i + 1 < book.kLevels; ++i)
        if (position >= book.midpoints[i]) c[s] = book.centroids[i + 1];
      if (!tile.has(s)) c[s] = 0;
    }
    const double squares = kv_tiles::sum_of_squares(tile, c);
    const double scale = __ddiv_rn(__dmul_rn(static_cast<double>(kv_tiles::through_float16(norm)), root),
                                   __dsqrt_rn(__dadd_rn(squares, 1e-16)));
#pragma unroll
    for (int s = 0; s < kSlots; ++s) y[s] = static_cast<double>(c[s]);
    kv_tiles::hadamard(tile.lane, tile.width, y);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) y[s] = __dmul_rn(y[s], scale);
  }
};

template <int kBits>
struct Values {
  template <int kSlots>
  __device__ void operator()(const kv_tiles::Tile& tile, const float (&x)[kSlots], double (&y)[kSlots]) const {
    const kv_tiles::Range range = kv_tiles::range_of(tile, x);
    const float step = kv_tiles::larger(
        __fdiv_rn(__fsub_rn(range.hi, range.lo), static_cast<float>(TurboquantCodebook<kBits>::kLevels - 1)), 1e-8f);
    const auto stored_step = static_cast<double>(kv_tiles::through_float16(step)),
               stored_lo = static_cast<double>(kv_tiles::through_float16(range.lo));
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const int code = __float2int_rz(__fadd_rn(__fdiv_rn(__fsub_rn(x[s], range.lo), step), 0.5f));
      y[s] = __dadd_rn(__dmul_rn(static_cast<double>(code), stored_step), stored_lo);
    }
  }
};

template <int kBits>
void store_turboquant(const KvRows& rows, const DeviceKvRows& on) {
  if (rows.keys)
    kv_tiles::launch_rows(
        on, Keys<kBits>{turboquant_codebook<kBits>(rows.channels), 1 / std::sqrt(static_cast<double>(rows.channels))});
  else
    kv_tiles::launch_rows(on, Values<kBits>{});
}

}  // namespace

void cuda_kv_turboquant4(const KvRows& rows, const DeviceKvRows& on) { store_turboquant<4>(rows, on); }
void cuda_kv_turboquant3(const KvRows& rows, const DeviceKvRows& on) { store_turboquant<3>(rows, on); }

}  // namespace attest
