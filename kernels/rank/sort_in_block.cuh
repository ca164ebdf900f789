// A stable radix sort of one row by one block, in shared memory alone: keys stay where they are, and 16-bit item
// numbers move. Passes of eight bits; a row of 32K keys takes 6 bytes of shared memory per key.
//
// Three passes sort by the upper 24 bits of the keys. Few keys of a row agree in them; those are put right within their
// short runs. Where a run is long, a fourth pass does it.
#pragma once

#include <cstdint>

#include "kernels/device/block_reduce.cuh"
#include "kernels/device/multiprocessor.h"
#include "kernels/device/row_views.h"

namespace attest {

/// Ascending in the image is descending in the value.
__device__ inline std::uint32_t descending_image(float value) { return ~ordered_image(value); }

/// kThreads: 256, 512 or 1024; a row has at most 32 items for each thread.
template <int kThreads>
class BlockSort {
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kDigits = 256;
  static constexpr int kPitch = kDigits + 2;  // of 16-bit counters, so that warps' tables differ in bank
  static constexpr int kLowBits = 8;          // which the first three passes leave out
  static constexpr int kLongRun = 32;         // of keys that agree in the other bits

  __host__ __device__ static constexpr int padded(int items) { return (items + 63) / 64 * 64; }

 public:
  static constexpr int kPerThread = 32;
  static constexpr int kMostItems = kThreads * kPerThread;

  /// Shared memory for rows of up to `items` keys.
  static std::size_t bytes(int items) {
    return static_cast<std::size_t>(padded(items)) * 6 + kWarps * kPitch * 2 + kWarps * 4;
  }

  /// Pieces of a block's shared memory.
  __device__ BlockSort(void* shared, int most_items)
      : keys_(static_cast<std::uint32_t*>(shared)),
        items_(reinterpret_cast<std::uint16_t*>(keys_ + padded(most_items))),
        warp_sums_(reinterpret_cast<std::uint32_t*>(items_ + padded(most_items))),
        counters_(reinterpret_cast<std::uint16_t*>(warp_sums_ + kWarps)) {}

  /// items()[0 .. count) = the row's items in descending order of their values, ties in ascending item.
  __device__ void sort(const RowValues& in, int row) {
    const int count = in.counts[row];
    load_keys(in, row, count);
    __syncthreads();
    sort_by_digit<true>(count, kLowBits);
    sort_by_digit<false>(count, kLowBits + 8);
    sort_by_digit<false>(count, kLowBits + 16);
    if (order_by_low_bits(count)) return;
    sort_by_digit<true>(count, 0);
    sort_by_digit<false>(count, 8);
    sort_by_digit<false>(count, 16);
    sort_by_digit<false>(count, 24);
  }

  __device__ const std::uint16_t* items() const { return items_; }

 private:
  /// keys_[item] = image of the row's values, read 16 bytes at a time where rows are aligned to that.
  __device__ void load_keys(const RowValues& in, int row, int count) {
    const int aligned = in.items.stride % 4 == 0 ? count / 4 * 4 : 0;
    const float* values = in.row(row);
#pragma unroll 4
    for (int item = static_cast<int>(threadIdx.x) * 4; item < aligned; item += kThreads * 4) {
      const float4 four = *reinterpret_cast<const float4*>(values + item);
      *reinterpret_cast<uint4*>(keys_ + item) = {descending_image(four.x), descending_image(four.y),
                                                 descending_image(four.z), descending_image(four.w)};
    }
    for (int item = aligned + static_cast<int>(threadIdx.x); item < count; item += kThreads)
      keys_[item] = descending_image(values[item]);
  }

  /// Lanes of `active` whose digit is that of the lane.
  static __device__ unsigned lanes_with(std::uint32_t digit, unsigned active) {
    unsigned same = active;
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const bool set = (digit >> bit & 1) != 0;
      const unsigned votes = __ballot_sync(0xFFFFFFFFu, set);
      same &= set ? votes : ~votes;
    }
    return same;
  }

  /// counters_[w][d]: items of warp w with digit d, becomes the place of the first of them among all items.
  __device__ void scan_counters() {
    constexpr int kParts = kThreads / kDigits;  // threads that share a digit
    constexpr int kPart = kWarps / kParts;      // warps whose counters a thread has
    const int digit = static_cast<int>(threadIdx.x) / kParts, first = static_cast<int>(threadIdx.x) % kParts * kPart;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    std::uint32_t own = 0;
#pragma unroll
    for (int w = 0; w < kPart; ++w) own += counters_[(first + w) * kPitch + digit];
    std::uint32_t inclusive = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const std::uint32_t below = __shfl_up_sync(0xFFFFFFFFu, inclusive, offset);
      if (lane >= offset) inclusive += below;
    }
    if (lane == 31) warp_sums_[warp] = inclusive;
    __syncthreads();
    std::uint32_t place = inclusive - own;
    for (int w = 0; w < warp; ++w) place += warp_sums_[w];
#pragma unroll
    for (int w = 0; w < kPart; ++w) {
      std::uint16_t& counter = counters_[(first + w) * kPitch + digit];
      const std::uint32_t here = counter;
      counter = static_cast<std::uint16_t>(place);
      place += here;
    }
  }

  /// One pass: items in order of the digit of their keys, those of one digit as they stood.
  template <bool kFirst>
  __device__ void sort_by_digit(int count, int shift) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int per_warp = (count + kThreads - 1) / kThreads * 32, begin = warp * per_warp;
    std::uint16_t* own = counters_ + warp * kPitch;
    for (int d = lane; d < kDigits / 2; d += 32) reinterpret_cast<std::uint32_t*>(own)[d] = 0;
    __syncwarp();
    std::uint32_t item_and_rank[kPerThread];  // the rank among the warp's items of the same digit in the upper half
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      if (k * 32 >= per_warp) break;
      const int place = begin + k * 32 + lane;
      const bool active = place < count;
      const std::uint32_t item = !active ? 0 : kFirst ? static_cast<std::uint32_t>(place) : items_[place];
      const std::uint32_t digit = keys_[item] >> shift & (kDigits - 1);
      const unsigned same = lanes_with(digit, __ballot_sync(0xFFFFFFFFu, active)), below = same & ((1u << lane) - 1);
      const std::uint32_t ahead = own[digit];
      __syncwarp();
      if (active && below == 0) own[digit] = static_cast<std::uint16_t>(ahead + __popc(same));
      __syncwarp();
      item_and_rank[k] = item | (ahead + __popc(below)) << 16;
    }
    __syncthreads();
    scan_counters();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      if (k * 32 >= per_warp) break;
      if (begin + k * 32 + lane >= count) continue;
      const std::uint32_t item = item_and_rank[k] & 0xFFFFu, digit = keys_[item] >> shift & (kDigits - 1);
      items_[own[digit] + (item_and_rank[k] >> 16)] = static_cast<std::uint16_t>(item);
    }
    __syncthreads();
  }

  /// From the order of the upper bits to that of the keys; false where a run of several keys is too long for it. A
  /// place looks kLongRun places to either side. If any place of a longer run sees two keys, so does one at the border
  /// between them, and the run is refused; a run of one key stays as it is.
  __device__ bool order_by_low_bits(int count) {
    std::uint32_t item_and_place[kPerThread];
    bool too_long = false;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int place = k * kThreads + static_cast<int>(threadIdx.x);
      if (place >= count) break;
      const std::uint32_t item = items_[place], key = keys_[item];
      const auto in_run = [&](std::uint32_t other) { return other >> kLowBits == key >> kLowBits; };
      int smaller_behind = 0, larger_ahead = 0, from = place, to = place;
      bool all_equal = true;
      while (from > 0 && place - from <= kLongRun) {
        const std::uint32_t other = keys_[items_[from - 1]];
        if (!in_run(other)) break;
        --from;
        larger_ahead += other > key ? 1 : 0;
        all_equal = all_equal && other == key;
      }
      while (to + 1 < count && to - place <= kLongRun) {
        const std::uint32_t other = keys_[items_[to + 1]];
        if (!in_run(other)) break;
        ++to;
        smaller_behind += other < key ? 1 : 0;
        all_equal = all_equal && other == key;
      }
      too_long = too_long || (!all_equal && (place - from > kLongRun || to - place > kLongRun));
      item_and_place[k] = item | static_cast<std::uint32_t>(place - larger_ahead + smaller_behind) << 16;
    }
    if (__syncthreads_or(too_long ? 1 : 0) != 0) return false;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      if (k * kThreads + static_cast<int>(threadIdx.x) >= count) break;
      items_[item_and_place[k] >> 16] = static_cast<std::uint16_t>(item_and_place[k] & 0xFFFFu);
    }
    __syncthreads();
    return true;
  }

  std::uint32_t* keys_;       // [items]
  std::uint16_t* items_;      // [items]
  std::uint32_t* warp_sums_;  // [kWarps]
  std::uint16_t* counters_;   // [kWarps, kPitch]
};

}  // namespace attest
