// The largest of many maxima, by a search over the bits of their order: at most 33 counts and a binary search. It needs
// no memory but a sum's, and the maxima may stay in registers, as in the fused kernel, whose shared memory is taken.
// (baselines/radix_select.cuh needs fewer passes, and 8 or 16 KiB of bins; it takes weights, too.)
#pragma once

#include "kernels/device/block_reduce.cuh"

namespace attest {

/// The n largest maxima, ties to the lower index: those above `bits`, and those equal to it below index `end`.
struct FfdTopK {
  std::uint32_t bits = 0;  ///< ordered_bits() of the n-th largest
  int end = 0;

  __device__ bool keeps(float maximum, int index) const {
    const std::uint32_t b = ordered_bits(maximum);
    return b > bits || (b == bits && index < end);
  }
};

/// number_of(counts): of how many of the `count` maxima counts(ordered_bits, index) is true, the same in all threads.
/// 1 <= n <= count.
template <class NumberOf>
__device__ FfdTopK largest_maxima(int count, int n, const NumberOf& number_of) {
  FfdTopK top;
  for (std::uint32_t bit = 1u << 31; bit; bit >>= 1) {
    const std::uint32_t candidate = top.bits | bit;
    if (number_of([&](std::uint32_t b, int) { return b >= candidate; }) >= n) top.bits = candidate;
  }
  const int equal_kept = n - number_of([&](std::uint32_t b, int) { return b > top.bits; });
  int low = 0;
  top.end = count;
  if (number_of([&](std::uint32_t b, int) { return b == top.bits; }) == equal_kept) return top;
  while (low + 1 < top.end) {  // fewer than equal_kept below low, enough below end
    const int middle = (low + top.end) / 2;
    if (number_of([&](std::uint32_t b, int at) { return b == top.bits && at < middle; }) >= equal_kept)
      top.end = middle;
    else
      low = middle;
  }
  return top;
}

}  // namespace attest
