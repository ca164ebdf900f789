// The decode kernel of one length for float16.
#include "kernels/decode/fused/ffd_fused_launch.cuh"

namespace attest {

void launch_ffd_one_length_float16(const FfdCacheShape& shape, const FfdFusedParams& p, const FfdDeal& deal,
                                   cudaStream_t stream) {
  launch_ffd_one_length_kernel<__half>(shape, p, deal, stream);
}

}  // namespace attest
