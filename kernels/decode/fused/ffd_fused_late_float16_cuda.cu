// The fused decode kernel for float16, where the decision needs the maxima of all blocks.
#include "kernels/decode/fused/ffd_fused_launch.cuh"

namespace attest {

void launch_ffd_late_float16(const FfdCacheShape& shape, const FfdFusedParams& p, cudaStream_t stream) {
  launch_ffd_kernel<__half, true>(shape, p, stream);
}

}  // namespace attest
