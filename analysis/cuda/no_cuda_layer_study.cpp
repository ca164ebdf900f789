// Replacements for the CUDA functions in a build without CUDA: they throw UsageError.
#if !ATTEST_HAS_CUDA

#include "analysis/cuda/cuda_bandwidth.h"
#include "analysis/layer/layer_study.h"
#include "dumps/base/error.h"

namespace attest {
namespace {
constexpr const char* kNoCuda = "this build has no CUDA: choose --device cpu, or build with ATTEST_CUDA=ON";
}

std::unique_ptr<LayerStudy> make_cuda_layer_study(const Study&, int, const DeviceMemoryLimit&, std::span<const Metric>,
                                                  int) {
  throw UsageError(kNoCuda);
}
CudaBandwidth measure_cuda_bandwidth(int) { throw UsageError(kNoCuda); }

}  // namespace attest

#endif
