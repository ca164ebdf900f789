// io_ratio: bytes an ideal kernel of the method reads for a KV head over those of a dense 16-bit read; the same for all heads of
// a group, of whose kept tokens each is read once.
#include "analysis/metrics/device_metrics.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr int kThreads = 256;

/// Block: the rows of one query and KV head.
__global__ void __launch_bounds__(kThreads) io_ratio_kernel(DeviceRows rows, const Level* levels, DeviceIoCost cost, SettingPlaces places, float* out) {
  extern __shared__ int entering[];  // [S + 1] tokens by the first setting at which any head keeps them
  const int group = blockIdx.x, first = group * rows.group, length = rows.visible[first], settings = places.count;
  for (int i = threadIdx.x; i <= settings; i += kThreads) entering[i] = 0;
  __syncthreads();
  int run = 0, tokens = 0;
  for (int j = threadIdx.x; j < length; j += kThreads) {
    int least = 0;
    if (levels != nullptr) {
      least = levels[first * rows.stride + j];
      for (int h = 1; h < rows.group; ++h) least = min(least, static_cast<int>(levels[(first + h) * rows.stride + j]));
    }
    if (least != run) {
      atomicAdd(&entering[run], tokens);
      run = least, tokens = 0;
    }
    ++tokens;
  }
  atomicAdd(&entering[run], tokens);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const IoCost own = cost.costs[group];
  const double fixed = own.fixed + (cost.base_kept != nullptr ? cost.bytes_per_base * cost.base_kept[group] : 0);
  const double dense = cost.dense_token_bytes * length;
  int kept = 0;
  for (int i = 0; i < settings; ++i) {
    kept += entering[i];
    const double bytes = fixed + own.per_kept_token * (kept - own.free_tokens);
    for (int h = 0; h < rows.group; ++h) out[places.at(rows, first + h, i)] = static_cast<float>(bytes / dense);
  }
}

}  // namespace

void io_ratio(const DeviceRows& rows, const Level* levels, const DeviceIoCost& cost, const SettingPlaces& places, float* out, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(places.count + 1) * sizeof(int);
  io_ratio_kernel<<<rows.num_rows / rows.group, kThreads, bytes, stream>>>(rows, levels, cost, places, out);
  ATTEST_CUDA_LAUNCHED(io_ratio_kernel);
}

}  // namespace attest
