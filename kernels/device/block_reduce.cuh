// Reductions over a warp or a block in a fixed order, so that results are bitwise reproducible.
#pragma once

#include <cstdint>

namespace attest {

template <class T, class Combine>
__device__ T warp_reduce(T value, Combine combine) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
  return value;
}

/// Sum over this lane and those before it. All lanes of the warp call it.
template <class T>
__device__ T warp_inclusive_sum(T value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const T before = __shfl_up_sync(0xFFFFFFFFu, value, offset);
    if (lane >= offset) value += before;
  }
  return value;
}

/// Every thread gets the result. `shared` holds 32 values; all threads of the block (a multiple of 32) take part.
template <class T, class Combine>
__device__ T block_reduce(T value, T* shared, Combine combine) {
  value = warp_reduce(value, combine);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (unsigned w = 1; w < blockDim.x / 32; ++w) value = combine(value, shared[w]);
  return value;
}

/// Reduces several values, one after the other.
template <class Combine, class T, class... Values>
__device__ void block_reduce_each(T* shared, Combine combine, Values&... values) {
  ((values = block_reduce(values, shared, combine)), ...);
}

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};
struct Smaller {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

/// An integer whose unsigned order is the order of the values; -0 and +0 have the same. 0 is that of no number.
__device__ inline std::uint32_t ordered_bits(float value) {
  const std::uint32_t bits = __float_as_uint(value + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float from_ordered_bits(std::uint32_t bits) {
  return __uint_as_float((bits >> 31) != 0 ? bits & 0x7FFFFFFFu : ~bits);
}

}  // namespace attest
