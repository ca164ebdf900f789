// Spearman's rho from sums over two sets of centred ranks.
#pragma once

#include "kernels/device/block_reduce.cuh"

namespace attest {

struct RankSums {
  long long products = 0, squares = 0, exact_squares = 0;

  __device__ void add(long long own, long long exact) {
    products += own * exact;
    squares += own * own;
    exact_squares += exact * exact;
  }

  /// Rho from the sums of all threads of the block. Every thread gets the result; NaN if either set is constant.
  /// `shared` holds 32 values.
  __device__ float rho(long long* shared) {
    block_reduce_each(shared, Plus{}, products, squares, exact_squares);
    if (squares == 0 || exact_squares == 0) return __int_as_float(0x7FC00000);
    return static_cast<float>(static_cast<double>(products) /
                              (sqrt(static_cast<double>(squares)) * sqrt(static_cast<double>(exact_squares))));
  }
};

}  // namespace attest
