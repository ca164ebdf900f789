// The fused decode kernel for bfloat16 in which whoever keeps a tile attends it.
#include "kernels/decode/fused/ffd_fused_launch.cuh"

namespace attest {

void launch_ffd_static_bfloat16(const FfdCacheShape& shape, const FfdFusedParams& p, cudaStream_t stream) {
  launch_ffd_static_kernel<__nv_bfloat16>(shape, p, stream);
}

}  // namespace attest
