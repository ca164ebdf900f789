// Formats on the device. A warp takes a tile, up to 32 * kSlots neighbouring channels: channel i of the tile is in lane
// i % 32 of slot i / 32. So a block of 32 channels is one slot, and butterflies of stride 32 and more stay in a lane.
//
// Every operation is rounded by itself (no contraction) and comes in the order of the CPU's code, what is double there
// is double here, so the results are the same bits.
#pragma once

#include <cstdint>
#include <string>

#include "dumps/base/error.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/octet.cuh"
#include "kernels/kv_formats/kv_rows_cuda.h"

namespace attest::kv_tiles {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kMaxSlots = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

/// `rows` rows of `channels` numbers each, which tiles of `chunk` channels divide.
struct Task {
  DeviceKvRows on;
  std::int64_t rows, channels;
  int chunk;
  std::int64_t chunks;
};

/// A warp's tile. Lanes without a channel have x = 0.
struct Tile {
  int lane, width;
  std::int64_t first;  ///< channel of the row that is channel 0 of the tile
  float scale;

  __device__ bool has(int slot) const { return slot * 32 + lane < width; }
};

/// Elements first + 32 slot of `base`.
template <int kSlots>
__device__ void load(ElementType type, const void* base, std::int64_t first, const Tile& tile, float (&x)[kSlots]) {
  const auto all = [&](ElementType own) {  // a loop for each type, so that its loads are in flight together
#pragma unroll
    for (int s = 0; s < kSlots; ++s) x[s] = tile.has(s) ? load_element(own, base, first + s * 32) : 0.0f;
  };
  if (type == ElementType::bfloat16)
    all(ElementType::bfloat16);
  else if (type == ElementType::float16)
    all(ElementType::float16);
  else
    all(ElementType::float32);
}

/// One warp per tile; blockIdx.y is the head. steps(tile, x, y) decodes x, exact float32, into y.
template <class Steps, int kSlots>
__global__ void __launch_bounds__(kThreads) store_kernel(const Task task, const Steps steps) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (index >= task.rows * task.chunks) return;
  const DeviceKvRows& on = task.on;
  const int head = static_cast<int>(blockIdx.y);
  Tile tile;
  tile.lane = static_cast<int>(threadIdx.x) % 32;
  tile.first = index % task.chunks * task.chunk;
  tile.width = static_cast<int>(min(static_cast<std::int64_t>(task.chunk), task.channels - tile.first));
  tile.scale = on.scales[head];
  const std::int64_t at = index / task.chunks * task.channels + tile.first + tile.lane, per_token = on.tokens.channels;
  float x[kSlots];
  load(on.tokens.type, on.tokens.data, ((on.first_head + head) * on.tokens.tokens + on.first_token) * per_token + at,
       tile, x);
  double y[kSlots];
  steps(tile, x, y);
  const std::int64_t to = head * on.num_tokens * per_token + at;
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    if (!tile.has(s)) continue;
    const float rounded = __double2float_rn(y[s]);
    on.out[to + s * 32] = rounded;
    if (on.low != nullptr) on.low[to + s * 32] = __double2float_rn(__dsub_rn(y[s], static_cast<double>(rounded)));
  }
}

template <int kSlots, class Steps>
void launch(const DeviceKvRows& on, std::int64_t rows, std::int64_t channels, int chunk, const Steps& steps) {
  const Task task{on, rows, channels, chunk, (channels + chunk - 1) / chunk};
  const std::int64_t tiles = task.rows * task.chunks;
  if (tiles == 0 || on.num_heads == 0) return;
  const dim3 grid(static_cast<unsigned>((tiles + kWarps - 1) / kWarps), static_cast<unsigned>(on.num_heads));
  store_kernel<Steps, kSlots><<<grid, kThreads, 0, on.stream>>>(task, steps);
  ATTEST_CUDA_LAUNCHED(store_kernel);
}

/// What must be in one tile. Throws DeviceError if that is too much.
inline void check_width(int channels) {
  if (channels > kMaxSlots * 32)
    throw DeviceError("a format of a KV cache that takes " + std::to_string(channels) +
                      " channels together, expected at most " + std::to_string(kMaxSlots * 32) +
                      " on a GPU; a CPU takes more");
}

/// A tile per row.
template <class Steps>
void launch_rows(const DeviceKvRows& on, const Steps& steps) {
  const int channels = on.tokens.channels, slots = (channels + 31) / 32;
  check_width(channels);
  const auto with = [&]<int kSlots>() { launch<kSlots>(on, on.num_tokens, channels, channels, steps); };
  if (slots <= 1)
    with.template operator()<1>();
  else if (slots <= 2)
    with.template operator()<2>();
  else if (slots <= 4)
    with.template operator()<4>();
  else if (slots <= 8)
    with.template operator()<8>();
  else if (slots <= 16)
    with.template operator()<16>();
  else
    with.template operator()<kMaxSlots>();
}

/// Tiles of 32 * kSlots channels without regard to rows, for blocks that divide both.
template <int kSlots, class Steps>
void launch_blocks(const DeviceKvRows& on, const Steps& steps) {
  launch<kSlots>(on, 1, on.num_tokens * on.tokens.channels, 32 * kSlots, steps);
}

// -- steps that several formats share

/// The larger of a and b as std::max(a, b) has it, also for NaN.
__device__ inline float larger(float a, float b) { return a < b ? b : a; }

__device__ inline float through_float16(float x) { return __half2float(__float2half_rn(x)); }

/// Largest magnitude of the lanes that differ in the bits of `lanes`: 31 for the warp, 15 for its halves.
__device__ inline float max_magnitude(float x, int lanes) {
  std::uint32_t largest = __float_as_uint(x) & 0x7FFFFFFFu;
  if (lanes == 31) return __uint_as_float(__reduce_max_sync(kAllLanes, largest));
  for (int stride = 1; stride <= lanes; stride *= 2)
    largest = max(largest, __shfl_xor_sync(kAllLanes, largest, stride));
  return __uint_as_float(largest);
}

/// round_half_up() of row_steps.h.
__device__ inline int round_half_up(float x) {
  const int whole = __float2int_rz(x);
  return whole + (__fsub_rn(x, static_cast<float>(whole)) >= 0.5f ? 1 : 0);
}

struct Range {
  float lo, hi;
};
/// Of the numbers of a tile.
template <int kSlots>
__device__ Range range_of(const Tile& tile, const float (&x)[kSlots]) {
  const float infinity = __int_as_float(0x7F800000);
  Range range{infinity, -infinity};
#pragma unroll
  for (int s = 0; s < kSlots; ++s)
    if (tile.has(s)) range = {x[s] < range.lo ? x[s] : range.lo, x[s] > range.hi ? x[s] : range.hi};
#pragma unroll
  for (int stride = 16; stride > 0; stride /= 2) {
    const float lo = __shfl_xor_sync(kAllLanes, range.lo, stride), hi = __shfl_xor_sync(kAllLanes, range.hi, stride);
    range = {lo < range.lo ? lo : range.lo, hi > range.hi ? hi : range.hi};
  }
  return range;
}

__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float minus(float a, float b) { return __fsub_rn(a, b); }
__device__ inline int plus(int a, int b) { return a + b; }
__device__ inline int minus(int a, int b) { return a - b; }
__device__ inline double plus(double a, double b) { return __dadd_rn(a, b); }
__device__ inline double minus(double a, double b) { return __dsub_rn(a, b); }

/// The strides of hadamard() below 32.
template <class T, int kSlots>
__device__ void hadamard_of_lanes(int lane, int n, T (&x)[kSlots]) {
#pragma unroll
  for (int stride = 1; stride < 32; stride *= 2) {
    if (stride >= n) break;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const T other = __shfl_xor_sync(kAllLanes, x[s], stride);
      x[s] = (lane & stride) == 0 ? plus(x[s], other) : minus(other, x[s]);
    }
  }
}

/// The strides from 32.
template <class T, int kSlots>
__device__ void hadamard_of_slots(int n, T (&x)[kSlots]) {
#pragma unroll
  for (int stride = 1; stride < kSlots; stride *= 2) {
    if (stride * 32 >= n) break;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      if ((s & stride) != 0) continue;
      const T a = x[s], b = x[s | stride];
      x[s] = plus(a, b);
      x[s | stride] = minus(a, b);
    }
  }
}

/// hadamard() of each `n` channels, a power of 2 of at most 32 * kSlots. Where n < 32, only lanes below n count.
template <class T, int kSlots>
__device__ void hadamard(int lane, int n, T (&x)[kSlots]) {
  hadamard_of_lanes(lane, n, x);
  hadamard_of_slots(n, x);
}

/// hadamard_of_lanes() of codes below 2^10 in magnitude. Their sums are below 2^15, so that two travel in a register.
template <int kSlots>
__device__ void hadamard_of_codes(int lane, int n, int (&x)[kSlots]) {
  if constexpr (kSlots == 1) {
    hadamard_of_lanes(lane, n, x);
  } else {
    constexpr int kHalf = kSlots / 2;
    int both[kHalf];
#pragma unroll
    for (int s = 0; s < kHalf; ++s) both[s] = x[s] + x[s + kHalf] * 65536;
    hadamard_of_lanes(lane, n, both);
#pragma unroll
    for (int s = 0; s < kHalf; ++s) {
      x[s] = static_cast<std::int16_t>(both[s]);
      x[s + kHalf] = (both[s] - x[s]) / 65536;
    }
  }
}

/// After it number 32 s + lane of four slots is in slot lane / 8 of lane 8 s + lane % 8.
__device__ inline void transpose(int lane, float (&x)[4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float got = __shfl_xor_sync(kAllLanes, (lane & 16) != 0 ? x[i] : x[i + 2], 16);
    if ((lane & 16) != 0)
      x[i] = got;
    else
      x[i + 2] = got;
  }
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const float got = __shfl_xor_sync(kAllLanes, (lane & 8) != 0 ? x[i] : x[i + 1], 8);
    if ((lane & 8) != 0)
      x[i] = got;
    else
      x[i + 1] = got;
  }
}

/// lane_sum() of the squares of the tile's `width` numbers, a power of 2.
template <int kSlots>
__device__ double sum_of_squares(const Tile& tile, const float (&x)[kSlots]) {
  const auto square = [](float number) {
    const double wide = static_cast<double>(number);
    return __dmul_rn(wide, wide);
  };
  double sum = 0;  // of the numbers i with i % 8 == lane % 8, ascending
  if constexpr (kSlots >= 4) {
#pragma unroll
    for (int first = 0; first < kSlots; first += 4) {
      float part[4] = {x[first], x[first + 1], x[first + 2], x[first + 3]};
      transpose(tile.lane, part);
#pragma unroll
      for (int s = 0; s < 4; ++s) {  // lane 8 s + i adds the numbers of slot s
        double with_slot = sum;
#pragma unroll
        for (const float number : part) with_slot = __dadd_rn(with_slot, square(number));
        sum = __shfl_sync(kAllLanes, with_slot, 8 * s + tile.lane % 8);
      }
    }
  } else {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const double own = square(x[s]);
#pragma unroll
      for (int first = 0; first < 32; first += 8) {
        const double term = __shfl_sync(kAllLanes, own, first + tile.lane % 8);
        if (s * 32 + first < tile.width) sum = __dadd_rn(sum, term);
      }
    }
  }
#pragma unroll
  for (int stride = 4; stride > 0; stride /= 2) sum = __dadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, stride));
  return sum;
}

}  // namespace attest::kv_tiles
