// Finds GPUs; parses --device and --device-memory.
#include "analysis/layer/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#if ATTEST_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include "dumps/base/byte_size.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

std::string too_old(const Gpu& gpu) {
  return fmt::format("{} has compute capability {}.{}, the GPU study needs 8.0 or later", gpu.name, gpu.major,
                     gpu.minor);
}

}  // namespace

std::vector<Gpu> visible_gpus() {
  std::vector<Gpu> gpus;
#if ATTEST_HAS_CUDA
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return gpus;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) break;
    gpus.push_back({properties.name, properties.major, properties.minor});
  }
#endif
  return gpus;
}

DeviceMemoryLimit parse_device_memory(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const bool valid = error == std::errc{} && number > 0;
  if (valid && unit == "%" && number <= 100) return {.share = number / 100, .bytes = 0};
  if (const std::optional<std::uint64_t> bytes = parse_byte_size(text)) return {.share = 0, .bytes = *bytes};
  throw UsageError(fmt::format(
      "--device-memory is '{}', expected a share of the GPU's memory such as 80%, or a size such as 12GiB", text));
}

Device resolve_device(std::string_view text) {
  if (text == "cpu") return {};
  const std::vector<Gpu> gpus = visible_gpus();
  if (text == "auto") {
    Device device;
    device.automatic = true;
    const auto found = std::ranges::find_if(gpus, &Gpu::usable);
    if (found != gpus.end()) {
      device.kind = DeviceKind::cuda;
      device.index = static_cast<int>(found - gpus.begin());
    } else if (!gpus.empty()) {
      device.notice = fmt::format("{}; the CPU is used", too_old(gpus.front()));
    }
    return device;
  }
  const std::string_view cuda = "cuda";
  int index = 0;
  bool valid = text.starts_with(cuda);
  if (valid && text.size() > cuda.size()) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + cuda.size() + 1, end, index);
    valid = text[cuda.size()] == ':' && error == std::errc{} && stop == end && index >= 0;
  }
  if (!valid) throw UsageError(fmt::format("--device is '{}', expected auto, cpu, cuda or cuda:<number>", text));
  if (static_cast<std::size_t>(index) >= gpus.size())
    throw UsageError(fmt::format("--device {}: {}", text,
                                 gpus.empty() ? "no GPU was found; expected cpu or auto"
                                              : fmt::format("found {} GPUs, counted from 0", gpus.size())));
  const Gpu& gpu = gpus[static_cast<std::size_t>(index)];
  if (!gpu.usable()) throw UsageError(fmt::format("--device {}: {}; expected cpu or auto", text, too_old(gpu)));
  Device device;
  device.kind = DeviceKind::cuda;
  device.index = index;
  return device;
}

}  // namespace attest
