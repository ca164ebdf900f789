// The fused decode kernel for float16, deciding block by block.
#include "kernels/decode/fused/ffd_fused_launch.cuh"

namespace attest {

void launch_ffd_float16(const FfdCacheShape& shape, const FfdFusedParams& p, cudaStream_t stream) {
  launch_ffd_kernel<__half, false>(shape, p, stream);
}

}  // namespace attest
