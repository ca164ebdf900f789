// Makes the layer study for a device.
#include "analysis/layer/make_layer_study.h"

#include <algorithm>

namespace attest {

void require_cuda_code(const Study& study, std::span<const Metric> metrics) {
  for (const StudySelector& s : study.selectors)
    if (!s.selector->cuda_code())
      throw NoCudaCode("selector '" + s.name + "' has no CUDA code: leave it out, or choose --device cpu");
  for (const Metric& metric : metrics)
    if (!metric.has_cuda_code())
      throw NoCudaCode("metric '" + std::string(metric.info.name) + "' has no CUDA code: choose --device cpu");
}

std::unique_ptr<LayerStudy> make_layer_study(const Study& study, const Device& device, int threads, std::size_t place) {
  if (device.kind == DeviceKind::cuda)
    return make_cuda_layer_study(study, device.gpus.at(place), device.memory, all_metrics(),
                                 std::max(1, threads / static_cast<int>(device.gpus.size())));
  return make_cpu_layer_study(study, threads);
}

int reading_threads(const Device& device, int threads) {
  constexpr int kMaxBesideCpuStudy = 4, kMax = 12;
  if (device.kind == DeviceKind::cpu) return std::min(threads, kMaxBesideCpuStudy);
  // The others start kernels, plan layers, and store results. On the host of an H200 ten of sixteen threads read as
  // much as the bus takes.
  return std::clamp(threads * 3 / 4 / static_cast<int>(device.gpus.size()), 1, kMax);
}

int storing_threads(const Device& device, int threads) {
  constexpr int kMax = 4;
  if (device.kind == DeviceKind::cpu) return 1;
  return std::clamp(threads / 4 / static_cast<int>(device.gpus.size()), 1, kMax);
}

}  // namespace attest
