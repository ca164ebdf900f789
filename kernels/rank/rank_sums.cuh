// Spearman's rho from sums over two sets of centred ranks.
#pragma once

#include "kernels/device/block_reduce.cuh"
#include "kernels/device/not_defined.cuh"

namespace attest {

struct RankSums {
  long long products = 0, squares = 0, exact_squares = 0;

  __device__ void add(long long own, long long exact) {
    products += own * exact;
    squares += own * own;
    exact_squares += exact * exact;
  }

  /// The sums of all threads of the block. `shared` holds 32 values.
  __device__ void reduce(long long* shared) { block_reduce_each(shared, Plus{}, products, squares, exact_squares); }
  /// Adds to sums that other blocks add to.
  __device__ void add_to(RankSums& all) const {
    const auto add = [](long long& to, long long value) {  // two's complement
      atomicAdd(reinterpret_cast<unsigned long long*>(&to), static_cast<unsigned long long>(value));
    };
    add(all.products, products), add(all.squares, squares), add(all.exact_squares, exact_squares);
  }

  /// NaN if either set is constant.
  __device__ float rho() const {
    if (squares == 0 || exact_squares == 0) return not_defined();
    return static_cast<float>(static_cast<double>(products) /
                              (sqrt(static_cast<double>(squares)) * sqrt(static_cast<double>(exact_squares))));
  }
};

}  // namespace attest
