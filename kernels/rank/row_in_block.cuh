// A row of up to 32K values in the shared memory of one block: sorted, and ranked in place.
#pragma once

#include <algorithm>

#include "kernels/device/block_reduce.cuh"
#include "kernels/device/multiprocessor.h"
#include "kernels/rank/sort_by_buckets.cuh"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/rank/sort_in_block.cuh"

namespace attest {

/// Ascending in the image is descending in the value.
__device__ inline std::uint32_t descending_image(float value) { return ~ordered_image(value); }

/// Rows of at most this many values have a faster sort, in registers.
inline constexpr int kShortSort = 2048;

namespace row_in_block {

using sort_in_block::kPerLane;
using sort_in_block::kThreads;
using sort_in_block::Storage;

/// Shared memory for rows of up to `count` values.
inline std::size_t bytes(int count) {
  return sort_in_block::bytes(count) + std::max(sort_in_block::kTableBytes, sizeof(sort_by_buckets::Tables));
}
inline bool fits(int count) { return count <= sort_in_block::kMostItems && bytes(count) <= largest_shared_memory(); }

/// keys[item] = image of the row's values, read 16 bytes at a time where rows are aligned to that.
__device__ inline void load_keys(const RowValues& in, int row, std::uint32_t* keys) {
  const int count = in.counts[row], aligned = in.stride % 4 == 0 ? count / 4 * 4 : 0;
  const float* values = in.values + row * in.stride;
#pragma unroll 4
  for (int item = static_cast<int>(threadIdx.x) * 4; item < aligned; item += kThreads * 4) {
    const float4 four = *reinterpret_cast<const float4*>(values + item);
    *reinterpret_cast<uint4*>(keys + item) = {descending_image(four.x), descending_image(four.y),
                                              descending_image(four.z), descending_image(four.w)};
  }
  for (int item = aligned + static_cast<int>(threadIdx.x); item < count; item += kThreads)
    keys[item] = descending_image(values[item]);
}

/// storage.items = the row's items in descending order of their values, ties in ascending item; storage.keys their
/// images.
__device__ inline void sort(const RowValues& in, int row, const Storage& storage) {
  const int count = in.counts[row];
  load_keys(in, row, storage.keys);
  __syncthreads();
  if (count == 0) return;
  auto& tables = *reinterpret_cast<sort_by_buckets::Tables*>(storage.warp_sums);
  if (!sort_by_buckets::sort(storage.keys, storage.items, count, tables)) sort_in_block::sort(storage, count);
}

/// First and last place with the key of `place`, added up.
__device__ inline int tied_places(const Storage& s, int count, int place, std::uint32_t key, bool tied_before,
                                  bool tied_after) {
  int first = place, last = place;
  if (tied_before)
    for (int low = 0; low < first;) {  // the key at `first` is the place's
      const int middle = (low + first) / 2;
      if (s.keys[s.items[middle]] == key)
        first = middle;
      else
        low = middle + 1;
    }
  if (tied_after)
    for (int high = count - 1; last < high;) {
      const int middle = (last + high + 1) / 2;
      if (s.keys[s.items[middle]] == key)
        last = middle;
      else
        high = middle - 1;
    }
  return first + last;
}

/// After sort(): items[item] = first and last tied place of the item, added up: twice its average rank, counted from 0.
__device__ inline void rank(const Storage& s, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t item_and_places[kPerLane];
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int place = k * kThreads + static_cast<int>(threadIdx.x);
    if (k * kThreads >= count) break;
    const int item = place < count ? s.items[place] : 0;
    const std::uint32_t key = s.keys[item];
    std::uint32_t before = __shfl_up_sync(0xFFFFFFFFu, key, 1), after = __shfl_down_sync(0xFFFFFFFFu, key, 1);
    if (place >= count) continue;
    if (lane == 0 && place > 0) before = s.keys[s.items[place - 1]];
    if (lane == 31 && place + 1 < count) after = s.keys[s.items[place + 1]];
    const int places = tied_places(s, count, place, key, place > 0 && before == key, place + 1 < count && after == key);
    item_and_places[k] = static_cast<std::uint32_t>(item) | static_cast<std::uint32_t>(places) << 16;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPerLane; ++k)
    if (k * kThreads + static_cast<int>(threadIdx.x) < count)
      s.items[item_and_places[k] & 0xFFFFu] = static_cast<std::uint16_t>(item_and_places[k] >> 16);
  __syncthreads();
}

}  // namespace row_in_block

}  // namespace attest
