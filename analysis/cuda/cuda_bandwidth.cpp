// Measures copy bandwidth with large copies timed by CUDA events.
#include "analysis/cuda/cuda_bandwidth.h"

#include <algorithm>
#include <array>

#include "kernels/device/buffers.h"
#include "kernels/device/stream.h"

namespace attest {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 20;
constexpr int kRepeats = 7;

template <class Copy>
double median_seconds(const CudaStream& stream, Copy&& copy) {
  CudaEvent begin(CudaEvent::Timing::on), end(CudaEvent::Timing::on);
  std::array<double, kRepeats> seconds{};
  copy();
  for (double& each : seconds) {
    begin.record(stream);
    copy();
    end.record(stream);
    end.synchronize();
    each = end.seconds_since(begin);
  }
  std::ranges::sort(seconds);
  return seconds[kRepeats / 2];
}

}  // namespace

CudaBandwidth measure_cuda_bandwidth(int device) {
  ATTEST_CUDA(cudaSetDevice(device));
  const DeviceBuffer from(kBytes), to(kBytes);
  const PageLockedBuffer host(kBytes);
  const CudaStream stream;
  const auto copy = [&](const std::byte* source, cudaMemcpyKind kind) {
    ATTEST_CUDA(cudaMemcpyAsync(to.data(), source, kBytes, kind, stream));
  };
  CudaBandwidth bandwidth;
  bandwidth.device_copy = 2 * kBytes / median_seconds(stream, [&] { copy(from.data(), cudaMemcpyDeviceToDevice); });
  bandwidth.from_host = kBytes / median_seconds(stream, [&] { copy(host.data(), cudaMemcpyHostToDevice); });
  return bandwidth;
}

}  // namespace attest
