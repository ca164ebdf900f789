// A selector over a quantised KV cache, on the device. What it means: cached_selector.h.
#include "kernels/rank/segments_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/selectors/cached_selector.h"
#include "kernels/selectors/kv_store_cuda.h"

namespace attest {
namespace {

class CudaCached final : public CudaSelector {
 public:
  CudaCached(std::shared_ptr<const CudaSelector> inner, const KvStore& store)
      : inner_(std::move(inner)), store_(store) {}

  bool needs_exact_order() const override { return !store_.stores_keys() && inner_->needs_exact_order(); }

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const StoredOnDevice stored = cuda_store(store_, chunk);
    CudaChunk cached = chunk;
    cached.kv.stored = store_.bytes(chunk.kv.shape());
    RowOrder order;
    if (stored.scores != nullptr) {
      const RowValues scores = chunk.visible_values(stored.scores);
      auto* maximum = chunk.take<float>(static_cast<std::size_t>(chunk.rows.num_rows));
      cuda_row_maxima(scores, maximum, chunk.stream);
      cached.exact = stored.scores;
      cached.exact_low = stored.low;
      cached.exact_max = maximum;
      if (inner_->needs_exact_order()) {
        order = cuda_sort_descending(scores, *chunk.arena, chunk.stream);
        cached.exact_order = &order;
      }
    }
    inner_->select(cached, grids, out);
    if (out.read_scores == nullptr) out.read_scores = stored.scores;
    out.made_values = stored.values;
  }

 private:
  std::shared_ptr<const CudaSelector> inner_;
  const KvStore& store_;
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_cached(const std::shared_ptr<const CudaSelector>& inner,
                                                     const KvStore& store) {
  return inner == nullptr ? nullptr : std::make_shared<CudaCached>(inner, store);
}

}  // namespace attest
