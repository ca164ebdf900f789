// The clustered decode kernel for float16.
#include "kernels/decode/fused/ffd_clustered_launch.cuh"

namespace attest {

bool launch_ffd_clustered_float16(const FfdCacheShape& shape, const FfdFusedParams& p, cudaStream_t stream) {
  return launch_ffd_clustered_kernel<__half>(shape, p, stream);
}

}  // namespace attest
