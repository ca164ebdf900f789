// kv_cache on the device. Method and sources: kv_cache.cpp.
#include "kernels/selectors/kv_cache.h"
#include "kernels/selectors/kv_store_cuda.h"

namespace attest {
namespace {

class CudaKvCache final : public CudaSelector {
 public:
  explicit CudaKvCache(const KvStore& store) : store_(store) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid>, CudaSelection& out) const override {
    out.covered = RowCounts(chunk, [](std::int64_t visible) { return visible; });
    const StoredOnDevice stored = cuda_store(store_, chunk);
    const bool keys = stored.scores != nullptr;
    out.estimate = keys ? stored.scores : chunk.exact;
    out.estimate_low = keys ? stored.low : chunk.exact_low;
    out.read_scores = stored.scores;
    out.made_values = stored.values;
    const double bytes = store_.stored_shape(chunk.kv.shape()).token_bytes();
    out.io = group_costs(chunk, [&](std::int64_t visible) {
      return IoCost{.fixed = bytes * static_cast<double>(visible), .per_kept_token = 0, .free_tokens = 0};
    });
  }

 private:
  const KvStore& store_;
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_kv_cache(const KvStore& store) {
  return std::make_shared<CudaKvCache>(store);
}

}  // namespace attest
