// A build without CUDA has no device.
#if !ATTEST_HAS_CUDA

#include "analysis/layer_study.h"
#include "dumps/error.h"

namespace attest {

std::vector<std::string> cuda_devices() { return {}; }

std::unique_ptr<LayerStudy> make_cuda_layer_study(StudyOptions, int, double) {
  throw UsageError("this build has no CUDA: choose --device cpu, or build with ATTEST_CUDA=ON");
}

}  // namespace attest

#endif
