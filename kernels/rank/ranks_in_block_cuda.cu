// Sort, ranks and Spearman's rho of rows that fit in shared memory, one thread block per row.
#include "kernels/device/cuda_check.h"
#include "kernels/rank/rank_sums.cuh"
#include "kernels/rank/ranks_in_block_cuda.h"
#include "kernels/rank/sort_in_block.cuh"

namespace attest {
namespace {

__device__ int centred_rank(std::uint32_t places, int count) { return static_cast<int>(places) + 2 - (count + 1); }

template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    rank_in_block_kernel(RowValues in, DeviceMatrix<std::uint32_t> order, DeviceMatrix<int> centred) {
  extern __shared__ __align__(16) std::uint32_t shared[];
  const int row = blockIdx.x, count = in.counts[row];
  std::uint32_t* by_place = order.row(row);
  int* ranks = centred.row(row);
  BlockSort<kThreads>(shared, in.max_count)
      .rank(
          in, row, [](int) { return 0; },
          [=](int item, int place, std::uint32_t places, int) {
            by_place[place] = static_cast<std::uint32_t>(item);
            ranks[item] = centred_rank(places, count);
          });
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    spearman_in_block_kernel(RowValues in, DeviceMatrix<const int> centred, RowCells rho) {
  extern __shared__ __align__(16) std::uint32_t shared[];
  __shared__ long long reduced[32];
  const int row = blockIdx.x, count = in.counts[row];
  const int* exact = centred.row(row);
  RankSums sums;
  BlockSort<kThreads>(shared, in.max_count)
      .rank(
          in, row, [=](int item) { return exact[item]; },
          [&](int, int, std::uint32_t places, int exact_rank) { sums.add(centred_rank(places, count), exact_rank); });
  sums.reduce(reduced);
  const float found = sums.rho();
  if (threadIdx.x == 0) rho.values[rho.cell[row]] = found;
}

}  // namespace

RowOrder cuda_rank_in_block(const RowValues& values, const DeviceMatrix<int>& centred, DeviceArena& arena,
                            cudaStream_t stream) {
  DeviceMatrix<std::uint32_t> order;
  with_block_sort(values.max_count, [&](auto threads, std::size_t bytes) {
    const auto items = static_cast<std::size_t>(values.rows) * static_cast<std::size_t>(values.max_count);
    order = {arena.take<std::uint32_t>(items), values.max_count};
    const auto kernel = rank_in_block_kernel<threads()>;
    allow_shared_memory(kernel, bytes);
    kernel<<<values.rows, threads(), bytes, stream>>>(values, order, centred);
    ATTEST_CUDA_LAUNCHED(rank_in_block_kernel);
  });
  return {.entries = order};
}

bool cuda_spearman_in_block(const RowValues& estimate, const DeviceMatrix<const int>& centred, const RowCells& rho,
                            cudaStream_t stream) {
  return with_block_sort(estimate.max_count, [&](auto threads, std::size_t bytes) {
    const auto kernel = spearman_in_block_kernel<threads()>;
    allow_shared_memory(kernel, bytes);
    kernel<<<estimate.rows, threads(), bytes, stream>>>(estimate, centred, rho);
    ATTEST_CUDA_LAUNCHED(spearman_in_block_kernel);
  });
}

}  // namespace attest
