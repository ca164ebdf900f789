// A stable radix sort of one row by one block, in shared memory alone: keys stay where they are, and 16-bit item
// numbers move. Four passes of eight bits; a row of 32K keys takes 6 bytes of shared memory per key.
#pragma once

#include <cstdint>

namespace attest::sort_in_block {

inline constexpr int kThreads = 1024;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kPerLane = 32;  // items of a lane
inline constexpr int kMostItems = kThreads * kPerLane;
inline constexpr int kDigits = 256;
inline constexpr int kCounterPitch = kDigits + 2;  // of 16-bit counters, so that warps' tables differ in bank

__host__ __device__ constexpr int padded(int items) { return (items + 63) / 64 * 64; }
/// Shared memory for keys and items of rows of up to `items` keys, and what the sort needs beside them.
__host__ __device__ constexpr std::size_t bytes(int items) { return static_cast<std::size_t>(padded(items)) * 6; }
inline constexpr std::size_t kTableBytes = kWarps * kCounterPitch * 2 + kWarps * 4;

/// Pieces of a block's shared memory.
struct Storage {
  std::uint32_t* keys;       // [items]
  std::uint16_t* items;      // [items]
  std::uint32_t* warp_sums;  // [kWarps]
  std::uint16_t* counters;   // [kWarps, kCounterPitch]

  __device__ Storage(void* shared, int count)
      : keys(static_cast<std::uint32_t*>(shared)),
        items(reinterpret_cast<std::uint16_t*>(keys + padded(count))),
        warp_sums(reinterpret_cast<std::uint32_t*>(items + padded(count))),
        counters(reinterpret_cast<std::uint16_t*>(warp_sums + kWarps)) {}
};

/// Lanes of `active` whose digit is that of the lane.
__device__ inline unsigned lanes_with(std::uint32_t digit, unsigned active) {
  unsigned same = active;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const bool set = (digit >> bit & 1) != 0;
    const unsigned votes = __ballot_sync(0xFFFFFFFFu, set);
    same &= set ? votes : ~votes;
  }
  return same;
}

/// counters[w][d]: items of warp w with digit d, becomes the place of the first of them among all items.
__device__ inline void scan_counters(const Storage& s) {
  constexpr int kPart = kWarps / 4;  // a thread has one digit of eight warps
  const int digit = static_cast<int>(threadIdx.x) / 4, first = static_cast<int>(threadIdx.x) % 4 * kPart;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t own = 0;
#pragma unroll
  for (int w = 0; w < kPart; ++w) own += s.counters[(first + w) * kCounterPitch + digit];
  std::uint32_t inclusive = own;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const std::uint32_t below = __shfl_up_sync(0xFFFFFFFFu, inclusive, offset);
    if (lane >= offset) inclusive += below;
  }
  if (lane == 31) s.warp_sums[warp] = inclusive;
  __syncthreads();
  std::uint32_t place = inclusive - own;
  for (int w = 0; w < warp; ++w) place += s.warp_sums[w];
#pragma unroll
  for (int w = 0; w < kPart; ++w) {
    std::uint16_t& counter = s.counters[(first + w) * kCounterPitch + digit];
    const std::uint32_t here = counter;
    counter = static_cast<std::uint16_t>(place);
    place += here;
  }
}

/// One pass: items in order of the digit of their keys, those of one digit as they stood.
template <bool kFirst>
__device__ void sort_by_digit(const Storage& s, int count, int shift) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int per_warp = (count + kThreads - 1) / kThreads * 32, begin = warp * per_warp;
  std::uint16_t* own = s.counters + warp * kCounterPitch;
  for (int d = lane; d < kDigits / 2; d += 32) reinterpret_cast<std::uint32_t*>(own)[d] = 0;
  __syncwarp();
  std::uint32_t item_and_rank[kPerLane];  // the rank among the warp's items of the same digit in the upper half
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    if (k * 32 >= per_warp) break;
    const int place = begin + k * 32 + lane;
    const bool active = place < count;
    const std::uint32_t item = !active ? 0 : kFirst ? static_cast<std::uint32_t>(place) : s.items[place];
    const std::uint32_t digit = s.keys[item] >> shift & (kDigits - 1);
    const unsigned same = lanes_with(digit, __ballot_sync(0xFFFFFFFFu, active)), below = same & ((1u << lane) - 1);
    const std::uint32_t ahead = own[digit];
    __syncwarp();
    if (active && below == 0) own[digit] = static_cast<std::uint16_t>(ahead + __popc(same));
    __syncwarp();
    item_and_rank[k] = item | (ahead + __popc(below)) << 16;
  }
  __syncthreads();
  scan_counters(s);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    if (k * 32 >= per_warp) break;
    if (begin + k * 32 + lane >= count) continue;
    const std::uint32_t item = item_and_rank[k] & 0xFFFFu, digit = s.keys[item] >> shift & (kDigits - 1);
    s.items[own[digit] + (item_and_rank[k] >> 16)] = static_cast<std::uint16_t>(item);
  }
  __syncthreads();
}

/// items[0 .. count) in ascending order of keys[item], equal keys in ascending item. All kThreads threads take part;
/// the keys have been written before a barrier.
__device__ inline void sort(const Storage& s, int count) {
  sort_by_digit<true>(s, count, 0);
  sort_by_digit<false>(s, count, 8);
  sort_by_digit<false>(s, count, 16);
  sort_by_digit<false>(s, count, 24);
}

}  // namespace attest::sort_in_block
