// FFD's decode on quantised caches, checked against the plain decode.
#include <cmath>
#include <numeric>
#include <vector>

#include "analysis/bench/decode_method_cuda.h"
#include "analysis/bench/kept_share.h"
#include "dumps/base/error.h"
#include "kernels/decode/ffd_decode_cuda.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

class FfdMethod final : public DecodeMethod {
 public:
  FfdMethod(const KernelSpec& spec, const DecodeContext& context)
      : spec_(spec),
        context_(context),
        what_(context.inputs.what),
        caches_(context.copies.quantised(scan_bits(spec))),
        units_{.pairs = context.inputs.pairs(), .length = what_.length, .sub_block = context.sub_block},
        heads_(context.plain.maxima(scan_bits(spec), context.sub_block)),
        topdelta_(topdelta_margins(head_maxima(context, heads_))),
        setting_(rule_setting(spec, units_, ranked(topdelta_))),
        out_(static_cast<std::size_t>(2 * context.inputs.rows() * what_.shape.value_dim)),
        lse_(static_cast<std::size_t>(context.inputs.rows()) * sizeof(float)),
        kept_(static_cast<std::size_t>(context.inputs.pairs()) * sizeof(int)) {
    options_.scale = static_cast<float>(context.inputs.scale);
    options_.rule = spec.rule == "topk" ? FfdDecodeRule::topk : FfdDecodeRule::topdelta;
    options_.sub_block = context.sub_block;
    options_.keep_sub_blocks = std::max(1, setting_.keep);
    options_.launches = spec.launches == "split" ? FfdLaunches::split : FfdLaunches::fused;
    const std::vector<float> deltas(static_cast<std::size_t>(what_.shape.num_kv_heads),
                                    static_cast<float>(setting_.delta));
    delta_ = on_device(deltas.data(), deltas.size() * sizeof(float), context.stream);
  }

  KernelResult check() override {
    enqueue(0, context_.stream);
    const std::vector<int> kept = on_host<int>(kept_, units_.pairs, context_.stream);
    const DecodeOutput found = output_on_host(context_, out_, lse_);
    const std::string name = name_of(spec_, context_);
    const bool topk = options_.rule == FfdDecodeRule::topk;
    const std::vector<double> margins = topk ? topk_margins(head_maxima(context_, heads_)) : topdelta_;
    const RankedBlocks blocks = ranked(margins);
    KernelResult result;
    check_counts(name, blocks, kept, expected_counts(), topk ? kNotMeasured : setting_.delta, result.check);
    const PlainOutput plain =
        context_.plain.attend(scan_bits(spec_), {.kept = lowest_margins(blocks, kept), .sub_block = units_.sub_block});
    check_output(name, found, plain.out, plain.lse, decode_tolerance(what_.element_type), result.check);
    result.check.against = plain_check_text(context_.inputs.rows());
    const PlainOutput& exact = context_.plain.exact();
    result.fidelity = fidelity_of(found, exact.out, exact.lse);
    describe(std::accumulate(kept.begin(), kept.end(), std::int64_t{0}), result);
    return result;
  }

  void enqueue(int copy, cudaStream_t stream) override {
    cuda_ffd_decode(*caches_[static_cast<std::size_t>(copy)], options_,
                    {.q = context_.inputs.q.data(),
                     .delta = reinterpret_cast<const float*>(delta_.data()),
                     .out = out_.data(),
                     .lse = reinterpret_cast<float*>(lse_.data()),
                     .kept = reinterpret_cast<int*>(kept_.data())},
                    stream);
  }

  int copies() const override { return static_cast<int>(caches_.size()); }

 private:
  RankedBlocks ranked(const std::vector<double>& margins) const {
    return {.margins = margins, .pairs = units_.pairs, .sub_blocks = units_.sub_blocks()};
  }

  std::vector<int> expected_counts() const {
    if (options_.rule == FfdDecodeRule::topdelta) return counts_within(ranked(topdelta_), setting_.delta);
    const auto keep = static_cast<int>(std::min<std::int64_t>(options_.keep_sub_blocks, units_.sub_blocks()));
    return std::vector<int>(static_cast<std::size_t>(units_.pairs), keep);
  }

  /// Settings, shares and bytes of `kept` sub-blocks.
  void describe(std::int64_t kept, KernelResult& result) const {
    const FfdBlockBytes block = ffd_block_bytes(caches_[0]->shape());
    const auto pairs = static_cast<double>(units_.pairs);
    result.bytes =
        pairs * static_cast<double>(units_.blocks() * block.record) +
        static_cast<double>(kept) * static_cast<double>(block.residual + block.values) * units_.sub_block / kFfdBlock +
        pairs * 2.0 * static_cast<double>(units_.tail()) * (what_.shape.head_dim + what_.shape.value_dim);
    result.io_ratio = result.bytes / dense_bytes(what_);
    result.keep_ratio = units_.keep_ratio(kept);
    result.delta = setting_.delta;
    result.setting = spec_.setting;
    if (spec_.rule == "topk") result.setting = {.kind = "keep", .value = setting_.asked_share};
  }

  KernelSpec spec_;
  DecodeContext context_;
  const KernelInputs& what_;
  const std::vector<std::unique_ptr<FfdCache>>& caches_;
  KeptUnits units_;
  std::vector<double> heads_;     ///< [rows, sub_blocks] largest s^
  std::vector<double> topdelta_;  ///< margins
  RuleSetting setting_;
  FfdDecodeOptions options_;
  DeviceBuffer out_, lse_, kept_, delta_;
};

}  // namespace

std::unique_ptr<DecodeMethod> make_ffd_method(const KernelSpec& spec, const DecodeContext& context) {
  try {
    return std::make_unique<FfdMethod>(spec, context);
  } catch (const InputError& refused) {  // a shape that no layout supports
    throw NotMeasurable(refused.what());
  }
}

}  // namespace attest
