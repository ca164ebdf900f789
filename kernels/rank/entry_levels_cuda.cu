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
  using Sums = cub::BlockScan<double, kScanThreads>;
  using Maxima = cub::BlockScan<int, kScanThreads, cub::BLOCK_SCAN_WARP_SCANS>;
  __shared__ typename Sums::TempStorage for_sums;
  __shared__ typename Maxima::TempStorage for_maxima;  // the barriers of one scan free the memory of the other
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
  int highest = 0;  // level of the places before the chunk
  for (int begin = 0; begin < count; begin += kScanThreads * kScanItems) {
    double before[kScanItems];
    int level[kScanItems];
    const int first = begin + static_cast<int>(threadIdx.x) * kScanItems;
#pragma unroll
    for (int i = 0; i < kScanItems; ++i) before[i] = first + i < count ? mass(first + i) : 0;
    double chunk = 0;
    Sums(for_sums).ExclusiveSum(before, before, chunk);
#pragma unroll
    for (int i = 0; i < kScanItems; ++i) {
      const double ahead = before_chunk + before[i];  // mass of the items earlier in the order
      level[i] = first + i == 0 || first + i >= count
                     ? 0
                     : first_where(shares.count, [&](int g) { return !(ahead >= (own[g] - kShareTolerance) * total); });
    }
    // Neighbouring sums are added in different orders, so that a later one may be smaller by its last bit.
    int at_least = 0, in_chunk = 0;
    Maxima(for_maxima).ExclusiveScan(level[kScanItems - 1], at_least, highest, Larger{}, in_chunk);
#pragma unroll
    for (int i = 0; i < kScanItems; ++i) {
      at_least = max(at_least, level[i]);
      if (first + i < count) levels.row(row)[order(row, first + i)] = static_cast<Level>(at_least);
    }
    highest = max(highest, in_chunk);
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
