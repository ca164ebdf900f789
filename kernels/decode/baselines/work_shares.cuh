// Work of ragged pairs in equal shares: the items of all pairs, laid end to end, are cut into one run per thread block.
#pragma once

#include <cstdint>

#include "kernels/device/block_reduce.cuh"

namespace attest {

/// Sum of items(p) over p in [0, pairs). All lanes of a warp call it and get the result.
template <class Items>
__device__ int items_before(int pairs, Items&& items) {
  int sum = 0;
  for (int p = static_cast<int>(threadIdx.x) % 32; p < pairs; p += 32) sum += items(p);
  return __reduce_add_sync(0xFFFFFFFFu, sum);
}

/// Block c has items [begin(c), begin(c + 1)).
struct WorkShares {
  int total;   ///< items of all pairs
  int blocks;  ///< that have items; none has fewer than one, unless there are none at all

  __device__ WorkShares(int total_items, int max_blocks, int min_items)
      : total(total_items), blocks(max(1, min(max_blocks, (total_items + min_items - 1) / min_items))) {}
  __device__ int begin(int block) const {
    return static_cast<int>(static_cast<std::int64_t>(total) * min(block, blocks) / blocks);
  }
  __device__ int block_of(int item) const {
    return static_cast<int>((static_cast<std::int64_t>(item + 1) * blocks - 1) / total);
  }
};

/// Calls run(pair, begin, end) on all threads of a block for every pair that block `block` has items of; begin and end
/// count from the pair's first item. items(pair) is the pair's number of items.
template <class Items, class Run>
__device__ void for_own_items(const WorkShares& shares, int block, int pairs, Items&& items, Run&& run) {
  const int first = shares.begin(block), last = shares.begin(block + 1);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int base = 0, pair = 0;  // items before the pair
  for (int chunk = 0; chunk < pairs; chunk += 32) {
    const int own = chunk + lane < pairs ? items(chunk + lane) : 0;
    const int through = warp_inclusive_sum(own);
    const unsigned beyond = __ballot_sync(0xFFFFFFFFu, base + through > first);
    if (beyond != 0) {
      const int at = __ffs(static_cast<int>(beyond)) - 1;
      pair = chunk + at;
      base += __shfl_sync(0xFFFFFFFFu, through - own, at);
      break;
    }
    base += __shfl_sync(0xFFFFFFFFu, through, 31);
  }
  for (; base < last; ++pair) {
    const int count = items(pair), begin = max(first - base, 0), end = min(last - base, count);
    if (begin < end) run(pair, begin, end);
    base += count;
  }
}

}  // namespace attest
