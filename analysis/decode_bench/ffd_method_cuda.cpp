// FFD's decode on quantised caches, checked against the reference decode.
#include <algorithm>
#include <numeric>
#include <vector>

#include "analysis/decode_bench/attention_result_cuda.h"
#include "analysis/decode_bench/ffd_rule_cuda.h"
#include "kernels/decode/ffd_decode_cuda.h"

namespace attest {
namespace {

class FfdMethod final : public DecodeMethod {
 public:
  FfdMethod(const KernelSpec& spec, const DecodeContext& context)
      : spec_(spec),
        context_(context),
        what_(context.inputs.what),
        caches_(context.copies.quantised(scan_bits(spec))),
        rule_(spec, context, {.pairs = context.inputs.pairs(), .length = what_.length, .sub_block = context.sub_block},
              scan_bits(spec)),
        attention_(context),
        delta_(deltas_on_device(context, rule_.setting().delta)),
        kept_(static_cast<std::size_t>(context.inputs.pairs()) * sizeof(int)) {
    options_.scale = static_cast<float>(context.inputs.scale);
    options_.rule = rule_.is_topk() ? FfdDecodeRule::topk : FfdDecodeRule::topdelta;
    options_.sub_block = context.sub_block;
    options_.keep_sub_blocks = std::max(1, rule_.setting().keep);
    options_.launches = spec.launches == "split" ? FfdLaunches::split : FfdLaunches::fused;
  }

  KernelResult check() override {
    std::vector<int> kept = kept_by_a_call();
    if (spec_.launches == "dealt") {
      deal_ = deal_ffd_decode(*caches_[0], shares_of(kept), what_.length);
      kept = kept_by_a_call();
    }
    KernelResult result;
    check_attention(spec_, context_, scan_bits(spec_),
                    {.kept = rule_.check(kept, result.check), .sub_block = context_.sub_block}, attention_, result);
    const std::int64_t all = std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
    rule_.describe(all, bytes_of(all), result);
    return result;
  }

  void enqueue(int copy, cudaStream_t stream) override {
    cuda_ffd_decode(*caches_[static_cast<std::size_t>(copy)], options_,
                    {.q = context_.inputs.q.data(),
                     .delta = reinterpret_cast<const float*>(delta_.data()),
                     .out = attention_.out.data(),
                     .lse = attention_.lse_values(),
                     .kept = reinterpret_cast<int*>(kept_.data())},
                    stream, &deal_);
  }

  int copies() const override { return static_cast<int>(caches_.size()); }

 private:
  std::vector<int> kept_by_a_call() {
    enqueue(0, context_.stream);
    return on_host<int>(kept_, rule_.sizes().pairs, context_.stream);
  }
  /// [pairs] of the full blocks.
  std::vector<float> shares_of(const std::vector<int>& kept) const {
    const auto all = static_cast<float>(std::max<std::int64_t>(1, rule_.sizes().sub_blocks()));
    std::vector<float> shares;
    for (const int count : kept) shares.push_back(static_cast<float>(count) / all);
    return shares;
  }
  /// With `kept` sub-blocks.
  double bytes_of(std::int64_t kept) const {
    const FfdBlockBytes block = ffd_block_bytes(caches_[0]->shape());
    const KeptSubBlocks& sizes = rule_.sizes();
    const auto pairs = static_cast<double>(sizes.pairs);
    return pairs * static_cast<double>(sizes.blocks() * block.record) +
           static_cast<double>(kept) * static_cast<double>(block.residual + block.values) * sizes.sub_block /
               kFfdBlock +
           pairs * 2.0 * static_cast<double>(sizes.tail()) * (what_.shape.head_dim + what_.shape.value_dim);
  }

  KernelSpec spec_;
  DecodeContext context_;
  const KernelInputs& what_;
  const std::vector<std::unique_ptr<FfdCache>>& caches_;
  FfdRule rule_;
  FfdDecodeOptions options_;
  FfdDeal deal_;  ///< by what the first call kept; none, but of "dealt"
  AttentionResult attention_;
  DeviceBuffer delta_, kept_;
};

}  // namespace

std::unique_ptr<DecodeMethod> make_ffd_method(const KernelSpec& spec, const DecodeContext& context) {
  return std::make_unique<FfdMethod>(spec, context);
}

}  // namespace attest
