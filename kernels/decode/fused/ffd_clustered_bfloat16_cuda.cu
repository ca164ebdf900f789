// The clustered decode kernel for bfloat16.
#include "kernels/decode/fused/ffd_clustered_launch.cuh"

namespace attest {

bool launch_ffd_clustered_bfloat16(const FfdCacheShape& shape, const FfdFusedParams& p, cudaStream_t stream) {
  return launch_ffd_clustered_kernel<__nv_bfloat16>(shape, p, stream);
}

}  // namespace attest
