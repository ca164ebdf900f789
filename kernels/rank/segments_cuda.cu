// Segment maxima and masses on the device: a few neighbouring threads reduce one segment.
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/rank/segments_cuda.h"

namespace attest {
namespace {

constexpr int kSegmentsThreads = 256;
constexpr float kLowest = -3.402823466e+38f;

struct MaxReduction {
  __device__ float start() const { return kLowest; }
  __device__ float term(float value, int) const { return value; }
  __device__ float combine(float a, float b) const { return fmaxf(a, b); }
};
struct MassReduction {
  const float* peak;
  __device__ float start() const { return 0; }
  __device__ float term(float value, int row) const { return expf(value - peak[row]); }
  __device__ float combine(float a, float b) const { return a + b; }
};

/// `lanes` neighbouring threads reduce one segment. Each reads kAtOnce neighbouring items at a time, aligned to
/// 4 * kAtOnce bytes.
template <int kAtOnce, class Of>
__global__ void segments_kernel(RowValues in, int width, Of of, int lanes, RaggedRows<float> out) {
  const int thread = blockIdx.x * kSegmentsThreads + threadIdx.x, row = blockIdx.y, segment = thread / lanes;
  const int begin = segment * width;
  const bool wanted = segment < out.counts[row];
  const int end = wanted ? min(in.counts[row], begin + width) : 0;
  const float* values = in.row(row);
  float result = of.start();
  for (int item = begin + thread % lanes * kAtOnce; item < end; item += lanes * kAtOnce) {
    if (kAtOnce == 4 && item + 4 <= end) {
      const float4 four = *reinterpret_cast<const float4*>(values + item);
      result = of.combine(result, of.combine(of.combine(of.term(four.x, row), of.term(four.y, row)),
                                             of.combine(of.term(four.z, row), of.term(four.w, row))));
    } else {
      for (int i = item; i < min(end, item + kAtOnce); ++i) result = of.combine(result, of.term(values[i], row));
    }
  }
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    result = of.combine(result, __shfl_xor_sync(0xFFFFFFFFu, result, offset));
  if (wanted && thread % lanes == 0) out.row(row)[segment] = result;
}

template <class Of>
void launch_segments(const RowValues& values, int width, const Of& of, const RaggedRows<float>& out,
                     cudaStream_t stream) {
  if (out.rows == 0 || out.max_count == 0) return;
  const bool by_fours = width % 4 == 0 && values.items.stride % 4 == 0;
  int lanes = 1;
  while (lanes < 32 && lanes * (by_fours ? 4 : 1) < width) lanes *= 2;
  const std::int64_t threads = static_cast<std::int64_t>(out.max_count) * lanes;
  const dim3 grid(static_cast<unsigned>((threads + kSegmentsThreads - 1) / kSegmentsThreads),
                  static_cast<unsigned>(out.rows));
  if (by_fours)
    segments_kernel<4><<<grid, kSegmentsThreads, 0, stream>>>(values, width, of, lanes, out);
  else
    segments_kernel<1><<<grid, kSegmentsThreads, 0, stream>>>(values, width, of, lanes, out);
  ATTEST_CUDA_LAUNCHED(segments_kernel);
}

/// One block per row.
__global__ void __launch_bounds__(kSegmentsThreads) row_maxima_kernel(RowValues in, float* out) {
  __shared__ float shared[32];
  const int row = blockIdx.x, count = in.counts[row];
  const float* values = in.row(row);
  float maximum = values[0];
  for (int j = threadIdx.x; j < count; j += kSegmentsThreads) maximum = fmaxf(maximum, values[j]);
  maximum = block_reduce(maximum, shared, Larger{});
  if (threadIdx.x == 0) out[row] = maximum;
}

/// One block per row.
__global__ void __launch_bounds__(kSegmentsThreads)
    maxima_in_double_kernel(RowValues in, DeviceMatrix<const float> low, int width, RaggedRows<double> out) {
  const int row = blockIdx.x;
  for (int segment = threadIdx.x; segment < out.counts[row]; segment += kSegmentsThreads) {
    const int begin = segment * width, end = min(in.counts[row], begin + width);
    double best = -static_cast<double>(__int_as_float(0x7F800000));
    for (int item = begin; item < end; ++item)
      best = fmax(best, static_cast<double>(in.row(row)[item]) + (low ? static_cast<double>(low.row(row)[item]) : 0));
    out.row(row)[segment] = best;
  }
}

}  // namespace

void cuda_segment_maxima(const RowValues& values, int width, const RaggedRows<float>& out, cudaStream_t stream) {
  launch_segments(values, width, MaxReduction{}, out, stream);
}

void cuda_segment_maxima(const RowValues& values, const DeviceMatrix<const float>& low, int width,
                         const RaggedRows<double>& out, cudaStream_t stream) {
  if (out.rows == 0) return;
  maxima_in_double_kernel<<<out.rows, kSegmentsThreads, 0, stream>>>(values, low, width, out);
  ATTEST_CUDA_LAUNCHED(maxima_in_double_kernel);
}

void cuda_row_maxima(const RowValues& values, float* out, cudaStream_t stream) {
  if (values.rows == 0) return;
  row_maxima_kernel<<<values.rows, kSegmentsThreads, 0, stream>>>(values, out);
  ATTEST_CUDA_LAUNCHED(row_maxima_kernel);
}

void cuda_segment_masses(const RowValues& values, int width, const float* peak, const RaggedRows<float>& out,
                         cudaStream_t stream) {
  launch_segments(values, width, MassReduction{peak}, out, stream);
}

}  // namespace attest
