// Finds GPUs; parses --device and --device-memory.
#include "analysis/layer/device.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#if ATTEST_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include "dumps/base/byte_size.h"
#include "dumps/base/error.h"
#include "dumps/base/text_parts.h"

namespace attest {
namespace {

std::string too_old(const Gpu& gpu) {
  return fmt::format("{} has compute capability {}.{}, the GPU study needs 8.0 or later", gpu.name, gpu.major,
                     gpu.minor);
}

Device first_usable(const VisibleGpus& visible) {
  const std::vector<Gpu>& gpus = visible.gpus;
  Device device;
  device.automatic = true;
  const auto found = std::ranges::find_if(gpus, &Gpu::usable);
  if (found != gpus.end()) {
    device.kind = DeviceKind::cuda;
    device.gpus = {static_cast<int>(found - gpus.begin())};
  } else if (!visible.fault.empty() || !gpus.empty()) {
    device.notice = fmt::format("{}; the CPU is used", visible.fault.empty() ? too_old(gpus.front()) : visible.fault);
  }
  return device;
}

Device all_usable(const VisibleGpus& visible) {
  const std::vector<Gpu>& gpus = visible.gpus;
  Device device;
  device.kind = DeviceKind::cuda;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].usable())
      device.gpus.push_back(static_cast<int>(i));
    else
      device.notice += fmt::format("{}GPU {} is not used: {}", device.notice.empty() ? "" : "; ", i, too_old(gpus[i]));
  }
  if (device.gpus.empty()) throw UsageError(fmt::format("--device cuda:all: {}; expected cpu", too_old(gpus.front())));
  if (!visible.fault.empty())
    device.notice +=
        fmt::format("{}no GPU from {} on is used: {}", device.notice.empty() ? "" : "; ", gpus.size(), visible.fault);
  return device;
}

/// The numbers of "cuda:<i>,<j>"; of "cuda" that of the first GPU. Throws UsageError for any other text.
std::vector<int> parse_gpus(std::string_view text) {
  if (text == "cuda") return {0};
  std::vector<int> gpus;
  std::string_view numbers = text;
  bool valid = take(numbers, "cuda:");
  for (const std::string_view number : split(numbers, ',')) {
    gpus.push_back(parse_whole<int>(number).value_or(-1));
    valid = valid && gpus.back() >= 0;
  }
  if (!valid)
    throw UsageError(fmt::format(
        "--device is '{}', expected auto, cpu, cuda, cuda:<number>, cuda:<number>,<number> or cuda:all", text));
  return gpus;
}

#if ATTEST_HAS_CUDA
/// Whether `error` says that the machine has no GPU. Without any driver the runtime finds it too old.
bool means_no_gpu(cudaError_t error) {
  int driver = 0;
  return error == cudaErrorNoDevice ||
         (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0);
}
#endif

}  // namespace

VisibleGpus visible_gpus() {
  VisibleGpus visible;
#if ATTEST_HAS_CUDA
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  for (int i = 0; error == cudaSuccess && i < count; ++i) {
    cudaDeviceProp properties{};
    error = cudaGetDeviceProperties(&properties, i);
    if (error == cudaSuccess) visible.gpus.push_back({properties.name, properties.major, properties.minor});
  }
  if (error != cudaSuccess && !means_no_gpu(error))
    visible.fault = fmt::format("the CUDA runtime says '{}'", cudaGetErrorString(error));
  cudaGetLastError();  // later calls do not report it again
#endif
  return visible;
}

DeviceMemoryLimit parse_device_memory(std::string_view text) {
  std::string_view unit = text;
  const std::optional<double> number = take_number<double>(unit);
  if (number && *number > 0 && *number <= 100 && trimmed(unit) == "%") return {.share = *number / 100, .bytes = 0};
  if (const std::optional<std::uint64_t> bytes = parse_byte_size(text)) return {.share = 0, .bytes = *bytes};
  throw UsageError(fmt::format(
      "--device-memory is '{}', expected a share of the GPU's memory such as 80%, or a size such as 12GiB", text));
}

void check_device_text(std::string_view text) {
  if (text != "cpu" && text != "auto" && text != "cuda:all") parse_gpus(text);
}

Device resolve_device(std::string_view text, const VisibleGpus& visible) {
  const auto& [gpus, fault] = visible;
  if (text == "cpu") return {};
  if (text == "auto") return first_usable(visible);
  Device device;
  device.kind = DeviceKind::cuda;
  const bool all = text == "cuda:all";
  if (!all) device.gpus = parse_gpus(text);
  const auto refuse = [&](const std::string& why) { throw UsageError(fmt::format("--device {}: {}", text, why)); };
  if (gpus.empty()) refuse((fault.empty() ? "no GPU was found" : fault) + "; expected cpu or auto");
  if (all) return all_usable(visible);
  for (const int index : device.gpus) {
    if (static_cast<std::size_t>(index) >= gpus.size())
      refuse((gpus.size() == 1 ? "found 1 GPU, number 0" : fmt::format("found {} GPUs, counted from 0", gpus.size())) +
             (fault.empty() ? "" : "; " + fault));
    if (std::ranges::count(device.gpus, index) > 1) refuse(fmt::format("GPU {} is given twice", index));
    const Gpu& gpu = gpus[static_cast<std::size_t>(index)];
    if (!gpu.usable()) refuse(too_old(gpu) + "; expected cpu or auto");
  }
  return device;
}

Device resolve_device(std::string_view text) {
  return resolve_device(text, text == "cpu" ? VisibleGpus() : visible_gpus());
}

}  // namespace attest
