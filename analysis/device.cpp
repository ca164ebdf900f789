#include "analysis/device.h"

#include <fmt/format.h>

#include <charconv>

#if ATTEST_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include "dumps/error.h"

namespace attest {

std::vector<Gpu> visible_gpus() {
  std::vector<Gpu> gpus;
#if ATTEST_HAS_CUDA
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return gpus;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) break;
    gpus.push_back({properties.name, properties.major, properties.minor});
  }
#endif
  return gpus;
}

Device resolve_device(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "auto") return visible_gpus().empty() ? Device{} : Device{DeviceKind::cuda, 0};
  const std::string_view cuda = "cuda";
  int index = 0;
  bool valid = text.starts_with(cuda);
  if (valid && text.size() > cuda.size()) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + cuda.size() + 1, end, index);
    valid = text[cuda.size()] == ':' && error == std::errc{} && stop == end && index >= 0;
  }
  if (!valid) throw UsageError(fmt::format("--device is '{}', expected auto, cpu, cuda or cuda:<number>", text));
  const std::vector<Gpu> gpus = visible_gpus();
  if (static_cast<std::size_t>(index) >= gpus.size())
    throw UsageError(fmt::format("--device {}: {}", text,
                                 gpus.empty() ? "no GPU was found; expected cpu or auto"
                                              : fmt::format("found {} GPUs, counted from 0", gpus.size())));
  return {DeviceKind::cuda, index};
}

}  // namespace attest
