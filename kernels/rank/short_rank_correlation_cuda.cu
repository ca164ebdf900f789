// Rank correlation of short rows by counting larger and equal values. One block per row.
#include "kernels/device/cuda_check.h"
#include "kernels/rank/rank_sums.cuh"
#include "kernels/rank/short_rank_correlation_cuda.h"

namespace attest {
namespace {

constexpr int kShortRankThreads = 128;

__global__ void __launch_bounds__(kShortRankThreads)
    short_ranks_kernel(RaggedRows<const double> values, DeviceMatrix<int> centred) {
  const int row = blockIdx.x, count = values.counts[row];
  const double* own = values.row(row);
  for (int item = threadIdx.x; item < count; item += kShortRankThreads) {
    int larger = 0, equal = 0;
    for (int other = 0; other < count; ++other) {
      larger += own[other] > own[item] ? 1 : 0;
      equal += own[other] == own[item] ? 1 : 0;
    }
    centred.row(row)[item] = 2 * larger + equal - count;  // rank = larger + (equal + 1) / 2
  }
}

__global__ void __launch_bounds__(kShortRankThreads)
    correlation_kernel(RaggedRows<const int> a, DeviceMatrix<const int> b, RowCells rho) {
  __shared__ long long reduced[32];
  const int row = blockIdx.x;
  RankSums sums;
  for (int item = threadIdx.x; item < a.counts[row]; item += kShortRankThreads)
    sums.add(a.row(row)[item], b.row(row)[item]);
  sums.reduce(reduced);
  const float found = sums.rho();
  if (threadIdx.x == 0) rho.values[rho.cell[row]] = found;
}

}  // namespace

void cuda_short_centred_ranks(const RaggedRows<const double>& values, const DeviceMatrix<int>& centred,
                              cudaStream_t stream) {
  if (values.rows == 0) return;
  short_ranks_kernel<<<values.rows, kShortRankThreads, 0, stream>>>(values, centred);
  ATTEST_CUDA_LAUNCHED(short_ranks_kernel);
}

void cuda_short_spearman(const RaggedRows<const int>& a, const DeviceMatrix<const int>& b, const RowCells& rho,
                         cudaStream_t stream) {
  if (a.rows == 0) return;
  correlation_kernel<<<a.rows, kShortRankThreads, 0, stream>>>(a, b, rho);
  ATTEST_CUDA_LAUNCHED(correlation_kernel);
}

}  // namespace attest
