// Entry levels on the device: thresholds and top-n are element-wise; top-p scans the sorted masses of a row.
#include <cub/block/block_scan.cuh>

#include "kernels/base/setting.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/first_where.cuh"
#include "kernels/rank/entry_levels_cuda.h"

namespace attest {
namespace {

constexpr int kEntryLevelsThreads = 256;

dim3 grid_of(const RowValues& values) {
  return dim3((values.max_count + kEntryLevelsThreads - 1) / kEntryLevelsThreads, static_cast<unsigned>(values.rows));
}

__global__ void threshold_kernel(RowValues in, const float* peak, QuerySettings<double> deltas,
                                 DeviceMatrix<Level> levels) {
  const int item = blockIdx.x * kEntryLevelsThreads + threadIdx.x, row = blockIdx.y;
  if (item >= in.counts[row]) return;
  const double value = in.row(row)[item], top = peak[row];
  const double* own = deltas.of_row(row);
  levels.row(row)[item] = static_cast<Level>(first_where(deltas.count, [&](int g) { return value >= top - own[g]; }));
}

__global__ void top_n_kernel(RowOrder order, const int* counts, QuerySettings<int> n, DeviceMatrix<Level> levels) {
  const int place = blockIdx.x * kEntryLevelsThreads + threadIdx.x, row = blockIdx.y;
  if (place >= counts[row]) return;
  const int* own = n.of_row(row);
  levels.row(row)[order(row, place)] = static_cast<Level>(first_where(n.count, [&](int g) { return own[g] > place; }));
}

constexpr int kScanThreads = 512, kScanItems = 4;

__global__ void __launch_bounds__(kScanThreads) top_p_kernel(RowOrder order, RowValues in, ItemMass kind,
                                                             QuerySettings<double> shares, DeviceMatrix<Level> levels) {
  using Scan = cub::BlockScan<double, kScanThreads>;
  __shared__ typename Scan::TempStorage temp;
  __shared__ double reduced[32];
  const int row = blockIdx.x, count = in.counts[row];
  if (count == 0) return;
  const float* values = in.row(row);
  const float peak = values[order(row, 0)];
  const auto mass = [&](int place) -> double {
    const float value = values[order(row, place)];
    if (kind == ItemMass::value) return value;
    return value == peak ? 1.0f : expf(value - peak);  // avoids NaN if both are -inf
  };
  double total = 0;
  for (int place = threadIdx.x; place < count; place += kScanThreads) total += mass(place);
  total = block_reduce(total, reduced, Plus{});

  const double* own = shares.of_row(row);
  double before_chunk = 0;
  for (int begin = 0; begin < count; begin += kScanThreads * kScanItems) {
    double before[kScanItems];
    const int first = begin + static_cast<int>(threadIdx.x) * kScanItems;
#pragma unroll
    for (int i = 0; i < kScanItems; ++i) before[i] = first + i < count ? mass(first + i) : 0;
    double chunk = 0;
    Scan(temp).ExclusiveSum(before, before, chunk);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kScanItems; ++i) {
      const int place = first + i;
      if (place >= count) continue;
      const double ahead = before_chunk + before[i];  // mass of the items earlier in the order
      const int level =
          place == 0 ? 0
                     : first_where(shares.count, [&](int g) { return !(ahead >= (own[g] - kShareTolerance) * total); });
      levels.row(row)[order(row, place)] = static_cast<Level>(level);
    }
    before_chunk += chunk;
  }
}

}  // namespace

void cuda_threshold_levels(const RowValues& values, const float* peak, const QuerySettings<double>& deltas,
                           const DeviceMatrix<Level>& levels, cudaStream_t stream) {
  if (values.rows == 0 || values.max_count == 0) return;
  threshold_kernel<<<grid_of(values), kEntryLevelsThreads, 0, stream>>>(values, peak, deltas, levels);
  ATTEST_CUDA_LAUNCHED(threshold_kernel);
}

void cuda_top_n_levels(const RowOrder& order, const RowValues& values, const QuerySettings<int>& n,
                       const DeviceMatrix<Level>& levels, cudaStream_t stream) {
  if (values.rows == 0 || values.max_count == 0) return;
  top_n_kernel<<<grid_of(values), kEntryLevelsThreads, 0, stream>>>(order, values.counts, n, levels);
  ATTEST_CUDA_LAUNCHED(top_n_kernel);
}

void cuda_top_p_levels(const RowOrder& order, const RowValues& values, ItemMass mass,
                       const QuerySettings<double>& shares, const DeviceMatrix<Level>& levels, cudaStream_t stream) {
  if (values.rows == 0 || values.max_count == 0) return;
  top_p_kernel<<<values.rows, kScanThreads, 0, stream>>>(order, values, mass, shares, levels);
  ATTEST_CUDA_LAUNCHED(top_p_kernel);
}

}  // namespace attest
