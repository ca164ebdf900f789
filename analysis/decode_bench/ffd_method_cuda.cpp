// FFD's decode on quantised caches, checked against the reference decode.
#include <algorithm>
#include <numeric>
#include <vector>

#include "analysis/decode_bench/attention_result_cuda.h"
#include "analysis/decode_bench/kept_share.h"
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
        sizes_{.pairs = context.inputs.pairs(), .length = what_.length, .sub_block = context.sub_block},
        heads_(context.reference.maxima(scan_bits(spec), context.sub_block)),
        topdelta_(topdelta_margins(head_maxima(context, heads_))),
        setting_(rule_setting(spec, sizes_, ranked(topdelta_))),
        attention_(context),
        delta_(deltas_on_device(context, setting_.delta)),
        kept_(static_cast<std::size_t>(context.inputs.pairs()) * sizeof(int)) {
    options_.scale = static_cast<float>(context.inputs.scale);
    options_.rule = spec.rule == "topk" ? FfdDecodeRule::topk : FfdDecodeRule::topdelta;
    options_.sub_block = context.sub_block;
    options_.keep_sub_blocks = std::max(1, setting_.keep);
    options_.launches = spec.launches == "split" ? FfdLaunches::split : FfdLaunches::fused;
  }

  KernelResult check() override {
    enqueue(0, context_.stream);
    const std::vector<int> kept = on_host<int>(kept_, sizes_.pairs, context_.stream);
    const bool topk = options_.rule == FfdDecodeRule::topk;
    const std::vector<double> margins = topk ? topk_margins(head_maxima(context_, heads_)) : topdelta_;
    const RankedBlocks blocks = ranked(margins);
    KernelResult result;
    check_counts(name_of(spec_, context_), blocks, kept, expected_counts(), topk ? kNotMeasured : setting_.delta,
                 result.check);
    check_attention(spec_, context_, scan_bits(spec_),
                    {.kept = lowest_margins(blocks, kept), .sub_block = sizes_.sub_block}, attention_, result);
    describe(std::accumulate(kept.begin(), kept.end(), std::int64_t{0}), result);
    return result;
  }

  void enqueue(int copy, cudaStream_t stream) override {
    cuda_ffd_decode(*caches_[static_cast<std::size_t>(copy)], options_,
                    {.q = context_.inputs.q.data(),
                     .delta = reinterpret_cast<const float*>(delta_.data()),
                     .out = attention_.out.data(),
                     .lse = attention_.lse_values(),
                     .kept = reinterpret_cast<int*>(kept_.data())},
                    stream);
  }

  int copies() const override { return static_cast<int>(caches_.size()); }

 private:
  RankedBlocks ranked(const std::vector<double>& margins) const {
    return {.margins = margins, .pairs = sizes_.pairs, .sub_blocks = sizes_.sub_blocks()};
  }

  std::vector<int> expected_counts() const {
    if (options_.rule == FfdDecodeRule::topdelta) return counts_within(ranked(topdelta_), setting_.delta);
    const auto keep = static_cast<int>(std::min<std::int64_t>(options_.keep_sub_blocks, sizes_.sub_blocks()));
    return std::vector<int>(static_cast<std::size_t>(sizes_.pairs), keep);
  }

  /// Settings, shares and bytes of `kept` sub-blocks.
  void describe(std::int64_t kept, KernelResult& result) const {
    const FfdBlockBytes block = ffd_block_bytes(caches_[0]->shape());
    const auto pairs = static_cast<double>(sizes_.pairs);
    result.bytes =
        pairs * static_cast<double>(sizes_.blocks() * block.record) +
        static_cast<double>(kept) * static_cast<double>(block.residual + block.values) * sizes_.sub_block / kFfdBlock +
        pairs * 2.0 * static_cast<double>(sizes_.tail()) * (what_.shape.head_dim + what_.shape.value_dim);
    result.io_ratio = result.bytes / dense_bytes(what_);
    result.keep_ratio = sizes_.keep_ratio(kept);
    result.delta = setting_.delta;
    result.setting = spec_.setting;
    if (spec_.rule == "topk") result.setting = {.kind = "keep", .value = setting_.asked_share};
  }

  KernelSpec spec_;
  DecodeContext context_;
  const KernelInputs& what_;
  const std::vector<std::unique_ptr<FfdCache>>& caches_;
  KeptSubBlocks sizes_;
  std::vector<double> heads_;     ///< [rows, sub_blocks] largest s^
  std::vector<double> topdelta_;  ///< margins
  RuleSetting setting_;
  FfdDecodeOptions options_;
  AttentionResult attention_;
  DeviceBuffer delta_, kept_;
};

}  // namespace

std::unique_ptr<DecodeMethod> make_ffd_method(const KernelSpec& spec, const DecodeContext& context) {
  return std::make_unique<FfdMethod>(spec, context);
}

}  // namespace attest
