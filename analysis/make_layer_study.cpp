// From a device to the study that runs on it.
#include "analysis/make_layer_study.h"

#include "dumps/error.h"

namespace attest {

std::unique_ptr<LayerStudy> make_layer_study(StudyOptions options, const Device& device, int threads) {
  if (device.kind == DeviceKind::cuda) throw UsageError("--device cuda: this build's study runs on the CPU only; use --device cpu");
  return make_cpu_layer_study(std::move(options), threads);
}

}  // namespace attest
