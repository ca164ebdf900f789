// exact: all keys and exact scores, the reference of every metric. FlashAttention and FlashDecoding compute the same
// function and differ only in speed. Bytes per KV head: 2(D + Dv)L.
#include "kernels/selectors/exact.h"

#include <algorithm>

#include "kernels/device/on_cuda.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

class Exact final : public Selector {
 public:
  explicit Exact(OptionReader& reader) { finish(reader); }

  SettingKind setting_kind() const override { return SettingKind::none; }
  bool has_estimate() const override { return false; }

  std::shared_ptr<const CudaSelector> cuda_code() const override { return call_on_cuda<make_cuda_exact>(); }

  void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid>, Selection& out) const override {
    keep_all(head, out);
  }
};

}  // namespace

void keep_all(const KvHead& head, Selection& out) {
  out.exact = true;
  for (int r = 0; r < head.rows(); ++r) std::fill_n(out.levels.row(r), head.row_length(r), Level{0});
  for (std::size_t n = 0; n < out.io.size(); ++n)
    out.io[n] = {.fixed = 0, .per_kept_token = dense_token_bytes(head), .free_tokens = 0};
}

extern const SelectorInfo exact_info;
const SelectorInfo exact_info{.name = "exact",
                              .summary = "every key and value in full precision: the reference",
                              .io_bytes = "2(D+Dv)L",
                              .source = "softmax attention; FlashDecoding computes the same function",
                              .takes_cache = false,
                              .make = make_from_options<Exact>};

}  // namespace attest
