// q8_0, q5_1, q5_0, q4_1, q4_0 on the device: a block is a slot. Formulas and sources: ggml_blocks.cpp.
#include <cmath>

#include "kernels/kv_formats/ggml_rotation.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_tiles_cuda.cuh"

namespace attest {
namespace {

using kv_tiles::round_half_up;
using kv_tiles::through_float16;

/// 1/d, or 0 where its float16, `stored`, or d is 0.
__device__ float inverse_of(float d, float stored) { return stored == 0 || d == 0 ? 0.0f : __fdiv_rn(1.0f, d); }

/// A number of a block: code * step + low. Steps and lows are float16 numbers, so that sums of a tile are exact in
/// double.
struct Coded {
  int code;
  float step, low = 0;

  __device__ double value() const {
    const double scaled = __dmul_rn(static_cast<double>(code), static_cast<double>(step));
    return low == 0 ? scaled : __dadd_rn(scaled, static_cast<double>(low));
  }
};

struct Q8_0 {
  static __device__ Coded of(const kv_tiles::Tile&, float x) {
    const float d = __fdiv_rn(kv_tiles::max_magnitude(x, 31), 127.0f), stored = through_float16(d);
    const float position = __fmul_rn(x, inverse_of(d, stored));
    const int code = round_half_up(fabsf(position));
    return {position < 0 ? -code : code, stored};
  }
};

template <int kHalf>
struct Signed {
  static __device__ Coded of(const kv_tiles::Tile&, float x) {
    const float largest = kv_tiles::max_magnitude(x, 31);
    const int first = __ffs(static_cast<int>(__ballot_sync(kv_tiles::kAllLanes, fabsf(x) == largest))) - 1;
    const float d = __fdiv_rn(__shfl_sync(kv_tiles::kAllLanes, x, first), -static_cast<float>(kHalf)),
                stored = through_float16(d);
    const float position = __fadd_rn(__fmul_rn(x, inverse_of(d, stored)), kHalf + 0.5f);
    return {min(2 * kHalf - 1, __float2int_rz(position)) - kHalf, stored};
  }
};

template <int kTop>
struct Ranged {
  static __device__ Coded of(const kv_tiles::Tile& tile, float x) {
    const float one[1] = {x};
    const kv_tiles::Range range = kv_tiles::range_of({tile.lane, 32, 0, 1.0f}, one);
    const float d = __fdiv_rn(__fsub_rn(range.hi, range.lo), static_cast<float>(kTop)), stored = through_float16(d);
    const float position = __fadd_rn(__fmul_rn(__fsub_rn(x, range.lo), inverse_of(d, stored)), 0.5f);
    return {min(kTop, __float2int_rz(position)), stored, through_float16(range.lo)};
  }
};

/// hadamard_of_lanes() of blocks: their codes are added, and their lows, which are equal, meet in the first number.
template <int kSlots>
__device__ void add_within_blocks(int lane, Coded (&blocks)[kSlots]) {
  int codes[kSlots];
#pragma unroll
  for (int s = 0; s < kSlots; ++s) codes[s] = blocks[s].code;
  kv_tiles::hadamard_of_codes(lane, 32, codes);
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    blocks[s].code = codes[s];
    blocks[s].low *= lane == 0 ? 32 : 0;
  }
}

template <class Block>
struct Blocks {
  int rotation;    // channels of a Hadamard block; 0: none
  float factor;    // 1/sqrt(rotation)
  double undoing;  // the same

  template <int kSlots>
  __device__ void operator()(const kv_tiles::Tile& tile, const float (&x)[kSlots], double (&y)[kSlots]) const {
    float rotated[kSlots];
#pragma unroll
    for (int s = 0; s < kSlots; ++s) rotated[s] = x[s];
    if (rotation > 0) {
      kv_tiles::hadamard(tile.lane, rotation, rotated);
#pragma unroll
      for (int s = 0; s < kSlots; ++s) rotated[s] = __fmul_rn(rotated[s], factor);
    }
    Coded coded[kSlots];
#pragma unroll
    for (int s = 0; s < kSlots; ++s) coded[s] = Block::of(tile, rotated[s]);
    if (rotation > 0) add_within_blocks(tile.lane, coded);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) y[s] = coded[s].value();
    if (rotation == 0) return;
    kv_tiles::hadamard_of_slots(rotation, y);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) y[s] = __dmul_rn(y[s], undoing);
  }
};

template <class Block>
void store_ggml(const KvRows& rows, const DeviceKvRows& on) {
  const GgmlRotation rotation(rows);
  kv_tiles::check_width(rotation.channels);
  const Blocks<Block> steps{rotation.channels, static_cast<float>(rotation.factor), rotation.factor};
  if (rotation.channels <= 128)
    kv_tiles::launch_blocks<4>(on, steps);
  else if (rotation.channels <= 256)
    kv_tiles::launch_blocks<8>(on, steps);
  else if (rotation.channels <= 512)
    kv_tiles::launch_blocks<16>(on, steps);
  else
    kv_tiles::launch_blocks<kv_tiles::kMaxSlots>(on, steps);
}

}  // namespace

void cuda_kv_q8_0(const KvRows& rows, const DeviceKvRows& on) { store_ggml<Q8_0>(rows, on); }
void cuda_kv_q5_1(const KvRows& rows, const DeviceKvRows& on) { store_ggml<Ranged<31>>(rows, on); }
void cuda_kv_q5_0(const KvRows& rows, const DeviceKvRows& on) { store_ggml<Signed<16>>(rows, on); }
void cuda_kv_q4_1(const KvRows& rows, const DeviceKvRows& on) { store_ggml<Ranged<15>>(rows, on); }
void cuda_kv_q4_0(const KvRows& rows, const DeviceKvRows& on) { store_ggml<Signed<8>>(rows, on); }

}  // namespace attest
