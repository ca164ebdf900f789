// Twilight's top-p bisection on the device. One scan per row computes the weights and their prefix sums. Then one
// thread per (row, share) bisects; each step is a binary search.
#include <cub/block/block_scan.cuh>

#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/first_where.cuh"
#include "kernels/rank/top_p_bisection.h"
#include "kernels/rank/top_p_bisection_cuda.h"

namespace attest {
namespace {

constexpr int kBisectionThreads = 512;

/// Weights of a row in descending order.
struct SortedWeights {
  DeviceMatrix<float> weights;
  DeviceMatrix<double> before;  ///< sum of the earlier weights
  double* total = nullptr;      ///< [rows] sum of all weights
  float* of_item_0 = nullptr;   ///< [rows] weight of item 0; 0 if it is not in the order
};

__global__ void __launch_bounds__(kBisectionThreads)
    sorted_weights_kernel(RowOrder order, RowValues in, SortedWeights out) {
  using Scan = cub::BlockScan<double, kBisectionThreads>;
  __shared__ typename Scan::TempStorage temp;
  __shared__ double reduced[32];
  const int row = blockIdx.x, count = in.counts[row];
  const float* values = in.row(row);
  const double peak = count > 0 ? values[order(row, 0)] : 0;
  double mass = 0;
  for (int place = threadIdx.x; place < count; place += kBisectionThreads)
    mass += exp(values[order(row, place)] - peak);
  mass = block_reduce(mass, reduced, Plus{});
  if (threadIdx.x == 0) out.of_item_0[row] = 0;
  __syncthreads();
  double before_chunk = 0;
  for (int begin = 0; begin < count; begin += kBisectionThreads) {
    const int place = begin + static_cast<int>(threadIdx.x), item = place < count ? order(row, place) : 0;
    const float weight = place < count ? static_cast<float>(exp(values[item] - peak) / mass) : 0;
    double before = 0, chunk = 0;
    Scan(temp).ExclusiveSum(static_cast<double>(weight), before, chunk);
    __syncthreads();
    if (place < count) {
      out.weights.row(row)[place] = weight;
      out.before.row(row)[place] = before_chunk + before;
      if (item == 0) out.of_item_0[row] = weight;
    }
    before_chunk += chunk;
  }
  if (threadIdx.x == 0) out.total[row] = before_chunk;
}

/// Number of weights above x; weights descending.
__device__ int count_above(const float* weights, int count, float x) {
  return first_where(count, [&](int i) { return !(weights[i] > x); });
}

__global__ void bisection_kernel(SortedWeights sorted, const int* counts, int rows, QuerySettings<double> shares,
                                 float* thresholds) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBisectionThreads + threadIdx.x;
  const int row = static_cast<int>(i / shares.count), g = static_cast<int>(i % shares.count);
  if (row >= rows) return;
  const double p = shares.of_row(row)[g];
  const int count = counts[row];
  const float* weights = sorted.weights.row(row);
  float lo = 0, hi = sorted.of_item_0[row], a = 0, b = 0;
  for (int step = 0; step == 0 || (static_cast<double>(b) - static_cast<double>(a) > 1e-5 && step < kMaxBisectionSteps);
       ++step) {
    const float mid = __fmul_rn(__fadd_rn(lo, hi), 0.5f);
    const int above_mid = count_above(weights, count, mid);
    const double mass = above_mid < count ? sorted.before.row(row)[above_mid] : sorted.total[row];
    const int above_lo = count_above(weights, count, lo), above_hi = count_above(weights, count, hi);
    a = above_lo > 0 ? fminf(hi, weights[above_lo - 1]) : hi;
    b = above_hi < count ? fmaxf(lo, weights[above_hi]) : lo;
    if (mass >= p)
      lo = mid;
    else
      hi = fminf(mid, b);
  }
  thresholds[i] = lo;
}

__global__ void __launch_bounds__(kBisectionThreads)
    above_thresholds_kernel(RowOrder order, SortedWeights sorted, const int* counts, const float* thresholds,
                            int settings, DeviceMatrix<Level> levels) {
  const int place = blockIdx.x * kBisectionThreads + static_cast<int>(threadIdx.x), row = blockIdx.y;
  if (place >= counts[row]) return;
  const float weight = sorted.weights.row(row)[place];
  int level = 0;
  while (level < settings && !(weight > thresholds[static_cast<std::int64_t>(row) * settings + level])) ++level;
  levels.row(row)[order(row, place)] = static_cast<Level>(level);
}

}  // namespace

void cuda_top_p_bisection_levels(const RowOrder& order, const RowValues& values, const QuerySettings<double>& shares,
                                 const DeviceMatrix<Level>& levels, DeviceArena& arena, cudaStream_t stream) {
  if (values.rows == 0 || values.max_count == 0) return;
  const DeviceArena::Scope scope(arena);
  const auto rows = static_cast<std::size_t>(values.rows), elements = rows * static_cast<std::size_t>(values.max_count);
  const SortedWeights sorted{{arena.take<float>(elements), values.max_count},
                             {arena.take<double>(elements), values.max_count},
                             arena.take<double>(rows),
                             arena.take<float>(rows)};
  auto* thresholds = arena.take<float>(rows * static_cast<std::size_t>(shares.count));
  sorted_weights_kernel<<<values.rows, kBisectionThreads, 0, stream>>>(order, values, sorted);
  ATTEST_CUDA_LAUNCHED(sorted_weights_kernel);
  const auto threads = static_cast<std::int64_t>(values.rows) * shares.count;
  bisection_kernel<<<static_cast<unsigned>((threads + kBisectionThreads - 1) / kBisectionThreads), kBisectionThreads, 0,
                     stream>>>(sorted, values.counts, values.rows, shares, thresholds);
  ATTEST_CUDA_LAUNCHED(bisection_kernel);
  const dim3 grid((values.max_count + kBisectionThreads - 1) / kBisectionThreads, values.rows);
  above_thresholds_kernel<<<grid, kBisectionThreads, 0, stream>>>(order, sorted, values.counts, thresholds,
                                                                  shares.count, levels);
  ATTEST_CUDA_LAUNCHED(above_thresholds_kernel);
}

}  // namespace attest
