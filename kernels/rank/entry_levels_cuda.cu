// Element-wise kernels, and one scan over the sorted masses of a row.
#include <cub/block/block_scan.cuh>

#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/fill_rows.cuh"
#include "kernels/rank/entry_levels_cuda.h"
#include "kernels/setting.h"

namespace attest {
namespace {

constexpr int kThreads = 256;
constexpr float kLowest = -3.402823466e+38f;

dim3 grid_of(std::int64_t columns, int rows) {
  return dim3(static_cast<unsigned>((columns + kThreads - 1) / kThreads), static_cast<unsigned>(rows));
}

struct MaximumOf {
  __device__ float start() const { return kLowest; }
  __device__ float term(float value, int) const { return value; }
  __device__ float combine(float a, float b) const { return fmaxf(a, b); }
};
struct MassOf {
  const float* peak;
  __device__ float start() const { return 0; }
  __device__ float term(float value, int row) const { return expf(value - peak[row]); }
  __device__ float combine(float a, float b) const { return a + b; }
};

/// `lanes` neighbouring threads share one segment; each takes kAtOnce neighbouring tokens of 4 * kAtOnce aligned bytes.
template <int kAtOnce, class Of>
__global__ void segments_kernel(Segments in, Of of, int lanes, float* out, std::int64_t out_stride) {
  const int thread = blockIdx.x * kThreads + threadIdx.x, row = blockIdx.y, segment = thread / lanes;
  const int begin = segment * in.width;
  const bool wanted = segment < in.counts[row];
  const int end = wanted ? min(in.tokens[row], begin + in.width) : 0;
  const float* values = in.values + row * in.stride;
  float result = of.start();
  for (int token = begin + thread % lanes * kAtOnce; token < end; token += lanes * kAtOnce) {
    if (kAtOnce == 4 && token + 4 <= end) {
      const float4 four = *reinterpret_cast<const float4*>(values + token);
      result = of.combine(result, of.combine(of.combine(of.term(four.x, row), of.term(four.y, row)),
                                             of.combine(of.term(four.z, row), of.term(four.w, row))));
    } else {
      for (int i = token; i < min(end, token + kAtOnce); ++i) result = of.combine(result, of.term(values[i], row));
    }
  }
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    result = of.combine(result, __shfl_xor_sync(0xFFFFFFFFu, result, offset));
  if (wanted && thread % lanes == 0) out[row * out_stride + segment] = result;
}

template <class Of>
void launch_segments(const Segments& segments, const Of& of, float* out, std::int64_t out_stride, cudaStream_t stream) {
  if (segments.rows == 0 || segments.max_count == 0) return;
  const bool by_fours = segments.width % 4 == 0 && segments.stride % 4 == 0;
  int lanes = 1;
  while (lanes < 32 && lanes * (by_fours ? 4 : 1) < segments.width) lanes *= 2;
  const dim3 grid = grid_of(static_cast<std::int64_t>(segments.max_count) * lanes, segments.rows);
  if (by_fours)
    segments_kernel<4><<<grid, kThreads, 0, stream>>>(segments, of, lanes, out, out_stride);
  else
    segments_kernel<1><<<grid, kThreads, 0, stream>>>(segments, of, lanes, out, out_stride);
  ATTEST_CUDA_LAUNCHED(segments_kernel);
}

template <class Combine>
__global__ void group_kernel(RowValues in, int group, Combine combine, float* out) {
  const int item = blockIdx.x * kThreads + threadIdx.x, first = blockIdx.y * group;
  if (item >= in.counts[first]) return;
  float result = in.values[first * in.stride + item];
  for (int h = 1; h < group; ++h) result = combine(result, in.values[(first + h) * in.stride + item]);
  for (int h = 0; h < group; ++h) out[(first + h) * in.stride + item] = result;
}

template <class Combine>
void launch_group(const RowValues& values, int group, float* out, cudaStream_t stream) {
  if (values.rows == 0 || values.max_count == 0) return;
  group_kernel<<<grid_of(values.max_count, values.rows / group), kThreads, 0, stream>>>(values, group, Combine{}, out);
  ATTEST_CUDA_LAUNCHED(group_kernel);
}

/// First index of ascending values whose element fulfils a condition that, once true, stays true.
template <class Condition>
__device__ int first_where(int count, Condition&& condition) {
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (condition(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

__global__ void threshold_kernel(RowValues in, const double* peak, const int* query, QuerySettings<double> deltas,
                                 Level* levels) {
  const int item = blockIdx.x * kThreads + threadIdx.x, row = blockIdx.y;
  if (item >= in.counts[row]) return;
  const double value = in.values[row * in.stride + item], top = peak[row];
  const double* own = deltas.values + static_cast<std::int64_t>(query[row]) * deltas.count;
  levels[row * in.stride + item] =
      static_cast<Level>(first_where(deltas.count, [&](int g) { return value >= top - own[g]; }));
}

__global__ void top_n_kernel(RowOrder order, const int* counts, const int* query, QuerySettings<int> n, Level* levels,
                             std::int64_t stride) {
  const int place = blockIdx.x * kThreads + threadIdx.x, row = blockIdx.y;
  if (place >= counts[row]) return;
  const int* own = n.values + static_cast<std::int64_t>(query[row]) * n.count;
  levels[row * stride + order(row, place)] =
      static_cast<Level>(first_where(n.count, [&](int g) { return own[g] > place; }));
}

constexpr int kScanThreads = 512, kScanItems = 4;

__global__ void __launch_bounds__(kScanThreads)
    top_p_kernel(RowOrder order, RowValues in, bool exponential, const int* query, QuerySettings<double> shares,
                 Level* levels, std::int64_t stride) {
  using Scan = cub::BlockScan<double, kScanThreads>;
  __shared__ typename Scan::TempStorage temp;
  __shared__ double reduced[32];
  const int row = blockIdx.x, count = in.counts[row];
  if (count == 0) return;
  const float* values = in.values + row * in.stride;
  const float peak = values[order(row, 0)];
  const auto mass = [&](int place) -> double {
    const float value = values[order(row, place)];
    return exponential ? expf(value - peak) : value;
  };
  double total = 0;
  for (int place = threadIdx.x; place < count; place += kScanThreads) total += mass(place);
  total = block_reduce(total, reduced, Plus{});

  const double* own = shares.values + static_cast<std::int64_t>(query[row]) * shares.count;
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
      const double ahead = before_chunk + before[i];  // mass of what stands ahead in the order
      const int level =
          place == 0 ? 0
                     : first_where(shares.count, [&](int g) { return !(ahead >= (own[g] - kShareTolerance) * total); });
      levels[row * stride + order(row, place)] = static_cast<Level>(level);
    }
    before_chunk += chunk;
  }
}

__global__ void least_group_kernel(Level* levels, std::int64_t stride, const int* counts, int group) {
  const int item = blockIdx.x * kThreads + threadIdx.x, first = blockIdx.y * group;
  if (item >= counts[first]) return;
  Level least = levels[first * stride + item];
  for (int h = 1; h < group; ++h) least = min(least, levels[(first + h) * stride + item]);
  for (int h = 0; h < group; ++h) levels[(first + h) * stride + item] = least;
}

struct LevelOfItem {
  const Level* items;
  std::int64_t stride;
  int width;
  const int* covered;
  __device__ Level operator()(int row, int token) const {
    return covered == nullptr || token < covered[row] ? items[row * stride + token / width] : Level{0};
  }
};
struct SameLevel {
  Level level;
  __device__ Level operator()(int, int) const { return level; }
};

__global__ void shares_kernel(const Level* levels, std::int64_t stride, const int* counts, int num_settings,
                              float* shares) {
  extern __shared__ int entering[];  // [S + 1]
  const int row = blockIdx.x, count = counts[row];
  for (int i = threadIdx.x; i <= num_settings; i += kThreads) entering[i] = 0;
  __syncthreads();
  for (int item = threadIdx.x; item < count; item += kThreads) atomicAdd(&entering[levels[row * stride + item]], 1);
  __syncthreads();
  if (threadIdx.x != 0) return;
  int kept = 0;
  for (int i = 0; i < num_settings; ++i) {
    kept += entering[i];
    shares[static_cast<std::int64_t>(row) * num_settings + i] =
        count > 0 ? static_cast<float>(static_cast<double>(kept) / count) : __int_as_float(0x7FC00000);
  }
}

}  // namespace

void segment_maxima(const Segments& segments, float* out, std::int64_t out_stride, cudaStream_t stream) {
  launch_segments(segments, MaximumOf{}, out, out_stride, stream);
}

void segment_masses(const Segments& segments, const float* peak, float* out, std::int64_t out_stride,
                    cudaStream_t stream) {
  launch_segments(segments, MassOf{peak}, out, out_stride, stream);
}

void group_maxima(const RowValues& values, int group, float* out, cudaStream_t stream) {
  launch_group<Larger>(values, group, out, stream);
}
void group_sums(const RowValues& values, int group, float* out, cudaStream_t stream) {
  launch_group<Plus>(values, group, out, stream);
}

void threshold_item_levels(const RowValues& values, const double* peak, const int* query, QuerySettings<double> deltas,
                           Level* levels, cudaStream_t stream) {
  if (values.rows == 0 || values.max_count == 0) return;
  threshold_kernel<<<grid_of(values.max_count, values.rows), kThreads, 0, stream>>>(values, peak, query, deltas,
                                                                                    levels);
  ATTEST_CUDA_LAUNCHED(threshold_kernel);
}

void top_n_item_levels(const RowOrder& order, const RowValues& values, const int* query, QuerySettings<int> n,
                       Level* levels, std::int64_t levels_stride, cudaStream_t stream) {
  if (values.rows == 0 || values.max_count == 0) return;
  top_n_kernel<<<grid_of(values.max_count, values.rows), kThreads, 0, stream>>>(order, values.counts, query, n, levels,
                                                                                levels_stride);
  ATTEST_CUDA_LAUNCHED(top_n_kernel);
}

void top_p_item_levels(const RowOrder& order, const RowValues& values, bool exponential, const int* query,
                       QuerySettings<double> shares, Level* levels, std::int64_t levels_stride, cudaStream_t stream) {
  if (values.rows == 0 || values.max_count == 0) return;
  top_p_kernel<<<values.rows, kScanThreads, 0, stream>>>(order, values, exponential, query, shares, levels,
                                                         levels_stride);
  ATTEST_CUDA_LAUNCHED(top_p_kernel);
}

void least_group_levels(Level* levels, std::int64_t stride, const int* counts, int max_count, int rows, int group,
                        cudaStream_t stream) {
  if (group == 1 || rows == 0 || max_count == 0) return;
  least_group_kernel<<<grid_of(max_count, rows / group), kThreads, 0, stream>>>(levels, stride, counts, group);
  ATTEST_CUDA_LAUNCHED(least_group_kernel);
}

void expand_levels(const DeviceRows& rows, const Level* item_levels, std::int64_t item_stride, int width,
                   const int* covered, Level* levels, cudaStream_t stream) {
  fill_rows(rows, LevelOfItem{item_levels, item_stride, width, covered}, levels, stream);
}

void fill_levels(const DeviceRows& rows, Level level, Level* levels, cudaStream_t stream) {
  fill_rows(rows, SameLevel{level}, levels, stream);
}

void level_shares(const Level* levels, std::int64_t stride, const int* counts, int rows, int num_settings,
                  float* shares, cudaStream_t stream) {
  if (rows == 0) return;
  shares_kernel<<<rows, kThreads, static_cast<std::size_t>(num_settings + 1) * sizeof(int), stream>>>(
      levels, stride, counts, num_settings, shares);
  ATTEST_CUDA_LAUNCHED(shares_kernel);
}

}  // namespace attest
