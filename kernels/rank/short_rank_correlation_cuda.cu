// A block per row.
#include "kernels/device/cuda_check.h"
#include "kernels/rank/rho.cuh"
#include "kernels/rank/short_rank_correlation_cuda.h"

namespace attest {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    maxima_kernel(Segments in, const float* low, double* out, std::int64_t out_stride) {
  const int row = blockIdx.x;
  for (int segment = threadIdx.x; segment < in.counts[row]; segment += kThreads) {
    const int begin = segment * in.width, end = min(in.tokens[row], begin + in.width);
    double best = -static_cast<double>(__int_as_float(0x7F800000));
    for (int token = begin; token < end; ++token) {
      const std::int64_t at = row * in.stride + token;
      best = fmax(best, static_cast<double>(in.values[at]) + (low != nullptr ? static_cast<double>(low[at]) : 0));
    }
    out[row * out_stride + segment] = best;
  }
}

__global__ void __launch_bounds__(kThreads)
    ranks_kernel(const double* values, std::int64_t stride, const int* counts, int* centred) {
  const int row = blockIdx.x, count = counts[row];
  const double* own = values + row * stride;
  for (int item = threadIdx.x; item < count; item += kThreads) {
    int larger = 0, equal = 0;
    for (int other = 0; other < count; ++other) {
      larger += own[other] > own[item] ? 1 : 0;
      equal += own[other] == own[item] ? 1 : 0;
    }
    centred[row * stride + item] = 2 * larger + equal - count;  // rank = larger + (equal + 1) / 2
  }
}

__global__ void __launch_bounds__(kThreads) correlation_kernel(const int* a, const int* b, std::int64_t stride,
                                                               const int* counts, float* rho, const int* cell) {
  __shared__ long long shared[32];
  const int row = blockIdx.x;
  RankSums sums;
  for (int item = threadIdx.x; item < counts[row]; item += kThreads)
    sums.add(a[row * stride + item], b[row * stride + item]);
  const float found = sums.rho(shared);
  if (threadIdx.x == 0) rho[cell[row]] = found;
}

}  // namespace

void segment_maxima_in_double(const Segments& segments, const float* low, double* out, std::int64_t out_stride,
                              cudaStream_t stream) {
  if (segments.rows == 0) return;
  maxima_kernel<<<segments.rows, kThreads, 0, stream>>>(segments, low, out, out_stride);
  ATTEST_CUDA_LAUNCHED(maxima_kernel);
}

void centred_ranks_of_few(const double* values, std::int64_t stride, const int* counts, int rows, int* centred,
                          cudaStream_t stream) {
  if (rows == 0) return;
  ranks_kernel<<<rows, kThreads, 0, stream>>>(values, stride, counts, centred);
  ATTEST_CUDA_LAUNCHED(ranks_kernel);
}

void spearman_of_ranks(const int* a, const int* b, std::int64_t stride, const int* counts, int rows, float* rho,
                       const int* cell, cudaStream_t stream) {
  if (rows == 0) return;
  correlation_kernel<<<rows, kThreads, 0, stream>>>(a, b, stride, counts, rho, cell);
  ATTEST_CUDA_LAUNCHED(correlation_kernel);
}

}  // namespace attest
