// FFD's rules on a 16-bit scan, in launches of their own: scan, selection, attention over what was kept.
#include <algorithm>
#include <numeric>

#include "analysis/decode_bench/attention_result_cuda.h"
#include "analysis/decode_bench/exact_step_cuda.h"
#include "kernels/decode/baselines/block_selection_cuda.h"
#include "kernels/decode/baselines/key_scan_cuda.h"
#include "kernels/decode/baselines/listed_attention_cuda.h"

namespace attest {
namespace {

class ExactFfdMethod final : public DecodeMethod {
 public:
  ExactFfdMethod(const KernelSpec& spec, const DecodeContext& context)
      : spec_(spec),
        context_(context),
        step_(context),
        sizes_(step_.units(context.sub_block)),
        heads_(context.reference.maxima(16, context.sub_block)),
        topdelta_(topdelta_margins(head_maxima(context, heads_))),
        setting_(rule_setting(spec, sizes_, ranked(topdelta_))),
        attention_(context),
        delta_(deltas_on_device(context, setting_.delta)),
        maxima_(at_least_one(sizes_.pairs * sizes_.sub_blocks() * context.inputs.what.shape.group()) * sizeof(float)),
        mask_(at_least_one(sizes_.pairs * sizes_.sub_blocks())),
        counts_(at_least_one(sizes_.pairs) * sizeof(int)),
        scratch_(std::max<std::size_t>(1, listed_attention_scratch(step_.cache(0), context.sub_block))) {}

  KernelResult check() override {
    enqueue(0, context_.stream);
    const std::vector<int> kept = on_host<int>(counts_, sizes_.pairs, context_.stream);
    const std::vector<double> margins = topk() ? topk_margins(head_maxima(context_, heads_)) : topdelta_;
    const RankedBlocks blocks = ranked(margins);
    const std::vector<int> expected =
        topk() ? std::vector<int>(kept.size(),
                                  static_cast<int>(std::min<std::int64_t>(setting_.keep, sizes_.sub_blocks())))
               : counts_within(blocks, setting_.delta);
    KernelResult result;
    check_counts(name_of(spec_, context_), blocks, kept, expected, topk() ? kNotMeasured : setting_.delta,
                 result.check);
    check_attention(spec_, context_, 16, {.kept = lowest_margins(blocks, kept), .sub_block = sizes_.sub_block},
                    attention_, result);
    const std::int64_t all = std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
    result.bytes = step_.bytes(all, sizes_.sub_block);
    result.io_ratio = result.bytes / dense_bytes(context_.inputs.what);
    result.keep_ratio = sizes_.keep_ratio(all);
    result.delta = setting_.delta;
    result.setting = topk() ? KernelSetting{.kind = "keep", .value = setting_.asked_share} : spec_.setting;
    return result;
  }

  void enqueue(int copy, cudaStream_t stream) override {
    const ExactCache cache = step_.cache(copy);
    float* maxima = reinterpret_cast<float*>(maxima_.data());
    KeyScanCall scan;
    scan.q = step_.q();
    (topk() ? scan.maxima : scan.head_maxima) = maxima;
    cuda_key_scan(cache, sizes_.sub_block, scan, stream);
    const BlockSelection selection{.mask = reinterpret_cast<std::uint8_t*>(mask_.data()),
                                   .counts = reinterpret_cast<int*>(counts_.data())};
    if (topk())
      cuda_select_top_k(cache, sizes_.sub_block, maxima, setting_.keep, selection, stream);
    else
      cuda_select_top_delta(cache, sizes_.sub_block, maxima, {.delta = reinterpret_cast<const float*>(delta_.data())},
                            selection, stream);
    cuda_listed_attention(cache, sizes_.sub_block,
                          {.q = step_.q(),
                           .mask = selection.mask,
                           .out = attention_.out.data(),
                           .lse = attention_.lse_values(),
                           .scratch = scratch_.data()},
                          stream);
  }
  int copies() const override { return step_.copies(); }

 private:
  static std::size_t at_least_one(std::int64_t count) {
    return static_cast<std::size_t>(std::max<std::int64_t>(1, count));
  }
  bool topk() const { return spec_.rule == "topk"; }
  RankedBlocks ranked(const std::vector<double>& margins) const {
    return {.margins = margins, .pairs = sizes_.pairs, .sub_blocks = sizes_.sub_blocks()};
  }

  KernelSpec spec_;
  DecodeContext context_;
  ExactStep step_;
  KeptSubBlocks sizes_;
  std::vector<double> heads_, topdelta_;
  RuleSetting setting_;
  AttentionResult attention_;
  DeviceBuffer delta_, maxima_, mask_, counts_, scratch_;
};

}  // namespace

std::unique_ptr<DecodeMethod> make_exact_ffd_method(const KernelSpec& spec, const DecodeContext& context) {
  return std::make_unique<ExactFfdMethod>(spec, context);
}

}  // namespace attest
