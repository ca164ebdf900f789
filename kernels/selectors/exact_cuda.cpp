// exact on the device: all tokens are kept, so no kernel runs.
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/exact.h"

namespace attest {
namespace {

class CudaExact final : public CudaSelector {
 public:
  void select(const CudaChunk& chunk, std::span<const AscendingGrid>, CudaSelection& out) const override {
    cuda_keep_all(chunk, out);
  }
};

}  // namespace

void cuda_keep_all(const CudaChunk& chunk, CudaSelection& out) {
  out.io = group_costs(chunk, [&](std::int64_t) {
    return IoCost{.fixed = 0, .per_kept_token = dense_token_bytes(chunk.kv), .free_tokens = 0};
  });
}

std::shared_ptr<const CudaSelector> make_cuda_exact() { return std::make_shared<CudaExact>(); }

}  // namespace attest
