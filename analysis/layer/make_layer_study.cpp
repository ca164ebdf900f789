// Makes the layer study for a device.
#include "analysis/layer/make_layer_study.h"

#include <algorithm>

namespace attest {

std::unique_ptr<LayerStudy> make_layer_study(const Study& study, const Device& device, int threads) {
  if (device.kind == DeviceKind::cuda) return make_cuda_layer_study(study, device.index, device.memory);
  return make_cpu_layer_study(study, threads);
}

int reading_threads(const Device& device, int threads) {
  constexpr int kMostBesideCpuStudy = 4, kMost = 16;
  return device.kind == DeviceKind::cuda ? std::clamp(threads - 1, 1, kMost) : std::min(threads, kMostBesideCpuStudy);
}

}  // namespace attest
