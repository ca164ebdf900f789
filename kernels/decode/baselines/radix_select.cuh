// The smallest set of items in descending order of their keys whose weights reach a target, found by one block of
// threads without sorting. Top-k: every weight is 1. Top-p: an item's weight is its share, as an integer, so that sums
// do not depend on the order of the additions.
//
// It is for kernels that have shared memory for the bins: there are three passes at most, where decode/base/top_k.cuh
// counts 33 times.
//
// Digits are taken from the distance to the smallest key, and from its leading bits on: scores that differ little
// still spread over the bins, and a clear gap ends the search after one or two passes.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/device/block_reduce.cuh"

namespace attest {

/// Items that are kept: those of a larger key, and of this key those up to place `last`.
struct SelectedCut {
  std::uint32_t key = 0;
  int last = INT_MAX;

  __device__ bool keeps(std::uint32_t other, int place) const { return other > key || (other == key && place <= last); }
};

/// Shared memory of one search. Sum: unsigned, or unsigned long long.
template <class Sum>
struct RadixSelectShared {
  static constexpr int kDigitBits = 11, kBins = 1 << kDigitBits;
  Sum bins[kBins];
  Sum of_warps[32];
  std::uint32_t reduce[32];
  std::uint32_t digit;
  Sum above, in_digit;
  int last;
};

/// Sum of the values of the threads before this one.
template <int kThreads, class Sum>
__device__ Sum sum_before(Sum value, Sum* of_warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const Sum through = warp_inclusive_sum(value);
  __syncthreads();
  if (lane == 31) of_warps[warp] = through;
  __syncthreads();
  Sum sum = through - value;
  for (int w = 0; w < kThreads / 32; ++w)
    if (w < warp) sum += of_warps[w];
  return sum;
}

/// Place of the `number`-th item (from 1) of those with key(i) == wanted.
template <int kThreads, class Sum, class Key>
__device__ int place_of_equal(int count, const Key& key, std::uint32_t wanted, int number,
                              RadixSelectShared<Sum>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int run = (count + kThreads - 1) / kThreads * 32, begin = warp * run, end = min(count, begin + run);
  const auto equal = [&](int first) {
    return __ballot_sync(0xFFFFFFFFu, first + lane < end && key(first + lane) == wanted);
  };
  int found = 0;
  for (int first = begin; first < end; first += 32) found += __popc(equal(first));
  int rank = number - static_cast<int>(sum_before<kThreads>(static_cast<Sum>(lane == 0 ? found : 0), shared.of_warps));
  rank = __shfl_sync(0xFFFFFFFFu, rank, 0);  // among the equal items of this warp
  if (rank >= 1 && rank <= found)
    for (int first = begin; first < end; first += 32) {
      const unsigned here = equal(first);
      const bool own = (here >> lane & 1u) != 0 && __popc(here & ((1u << lane) - 1)) + 1 == rank;
      if (own) shared.last = first + lane;
      rank -= __popc(here);
    }
  __syncthreads();
  return shared.last;
}

/// All threads take part and get the result. key(i) and weight(i) are those of item i < count; weights are positive,
/// and equal for equal keys. 1 <= target <= sum of all weights.
template <int kThreads, class Sum, class Key, class Weight>
__device__ SelectedCut radix_select(int count, const Key& key, const Weight& weight, Sum target,
                                    RadixSelectShared<Sum>& shared) {
  using Shared = RadixSelectShared<Sum>;
  constexpr int kBinsPerThread = Shared::kBins / kThreads;
  static_assert(kBinsPerThread * kThreads == Shared::kBins);
  const int thread = static_cast<int>(threadIdx.x);
  std::uint32_t lowest = ~0u, highest = 0;
  for (int i = thread; i < count; i += kThreads) {
    const std::uint32_t own = key(i);
    lowest = min(lowest, own), highest = max(highest, own);
  }
  lowest = block_reduce(lowest, shared.reduce, Smaller());
  highest = block_reduce(highest, shared.reduce, Larger());

  // Invariant: the wanted items are those with distance >> shift > prefix, and `target` of those with == prefix.
  std::uint64_t prefix = 0;
  int shift = 32 - __clz(static_cast<int>(highest - lowest));
  while (shift > 0) {
    const int next = max(0, shift - Shared::kDigitBits), digits = 1 << (shift - next);
    for (int b = thread; b < Shared::kBins; b += kThreads) shared.bins[b] = 0;
    __syncthreads();
    for (int i = thread; i < count; i += kThreads) {
      const std::uint64_t distance = key(i) - lowest;
      if (distance >> shift == prefix) atomicAdd(&shared.bins[(distance >> next) & (digits - 1)], weight(i));
    }
    __syncthreads();
    Sum own = 0;  // of the thread's bins, the first thread's being the highest
    const int highest_bin = Shared::kBins - 1 - thread * kBinsPerThread;
    for (int b = 0; b < kBinsPerThread; ++b) own += shared.bins[highest_bin - b];
    Sum above = sum_before<kThreads>(own, shared.of_warps);
    for (int b = 0; b < kBinsPerThread; ++b) {
      const Sum in_bin = shared.bins[highest_bin - b];
      if (above < target && target <= above + in_bin) {
        shared.digit = static_cast<std::uint32_t>(highest_bin - b);
        shared.above = above;
        shared.in_digit = in_bin;
      }
      above += in_bin;
    }
    __syncthreads();
    prefix = prefix << (shift - next) | shared.digit;
    target -= shared.above;
    shift = next;
    const bool whole = shared.in_digit == target;
    __syncthreads();
    if (whole) return {lowest + static_cast<std::uint32_t>(prefix << shift), INT_MAX};
  }
  const std::uint32_t wanted = lowest + static_cast<std::uint32_t>(prefix);
  // Some items have this key. The last of them are left out if fewer reach the target.
  if (thread == 0) shared.above = 0;
  __syncthreads();
  for (int i = thread; i < count; i += kThreads)
    if (key(i) == wanted) {
      atomicMax(&shared.above, weight(i));  // the same from every thread
      break;
    }
  __syncthreads();
  const auto number = static_cast<int>((target + shared.above - 1) / shared.above);
  return {wanted, place_of_equal<kThreads>(count, key, wanted, number, shared)};
}

}  // namespace attest
