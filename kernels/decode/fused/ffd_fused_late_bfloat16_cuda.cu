// The fused decode kernel for bfloat16, where the decision needs the maxima of all blocks.
#include "kernels/decode/fused/ffd_fused_launch.cuh"

namespace attest {

void launch_ffd_late_bfloat16(const FfdCacheShape& shape, const FfdFusedParams& p, cudaStream_t stream) {
  launch_ffd_kernel<__nv_bfloat16, true>(shape, p, stream);
}

}  // namespace attest
