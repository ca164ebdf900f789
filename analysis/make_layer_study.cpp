// From a device to the study that runs on it.
#include "analysis/make_layer_study.h"

namespace attest {
namespace {
constexpr double kDefaultMemoryShare = 0.8;
}

std::unique_ptr<LayerStudy> make_layer_study(StudyOptions options, const Device& device, int threads) {
  if (device.kind == DeviceKind::cuda) return make_cuda_layer_study(std::move(options), device.index, kDefaultMemoryShare);
  return make_cpu_layer_study(std::move(options), threads);
}

}  // namespace attest
