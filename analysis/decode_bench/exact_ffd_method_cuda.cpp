// FFD's rules on a 16-bit scan, in launches of their own: scan, selection, attention over what was kept.
#include <algorithm>
#include <numeric>

#include "analysis/decode_bench/attention_result_cuda.h"
#include "analysis/decode_bench/exact_step_cuda.h"
#include "analysis/decode_bench/ffd_rule_cuda.h"
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
        rule_(spec, context, step_.units(context.sub_block), 16),
        sizes_(rule_.sizes()),
        attention_(context),
        delta_(deltas_on_device(context, rule_.setting().delta)),
        maxima_(at_least_one(sizes_.pairs * sizes_.sub_blocks() * context.inputs.what.shape.group()) * sizeof(float)),
        mask_(at_least_one(sizes_.pairs * sizes_.sub_blocks())),
        counts_(at_least_one(sizes_.pairs) * sizeof(int)),
        scratch_(std::max<std::size_t>(1, listed_attention_scratch(step_.cache(0), context.sub_block))) {}

  KernelResult check() override {
    enqueue(0, context_.stream);
    const std::vector<int> kept = on_host<int>(counts_, sizes_.pairs, context_.stream);
    KernelResult result;
    check_attention(spec_, context_, 16, {.kept = rule_.check(kept, result.check), .sub_block = sizes_.sub_block},
                    attention_, result);
    const std::int64_t all = std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
    rule_.describe(all, step_.bytes(all, sizes_.sub_block), result);
    return result;
  }

  void enqueue(int copy, cudaStream_t stream) override {
    const ExactCache cache = step_.cache(copy);
    float* maxima = reinterpret_cast<float*>(maxima_.data());
    KeyScanCall scan;
    scan.q = step_.q();
    (rule_.is_topk() ? scan.maxima : scan.head_maxima) = maxima;
    cuda_key_scan(cache, sizes_.sub_block, scan, stream);
    const BlockSelection selection{.mask = reinterpret_cast<std::uint8_t*>(mask_.data()),
                                   .counts = reinterpret_cast<int*>(counts_.data())};
    if (rule_.is_topk())
      cuda_select_top_k(cache, sizes_.sub_block, maxima, rule_.setting().keep, selection, stream);
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

  KernelSpec spec_;
  DecodeContext context_;
  ExactStep step_;
  FfdRule rule_;
  const KeptSubBlocks& sizes_;
  AttentionResult attention_;
  DeviceBuffer delta_, maxima_, mask_, counts_, scratch_;
};

}  // namespace

std::unique_ptr<DecodeMethod> make_exact_ffd_method(const KernelSpec& spec, const DecodeContext& context) {
  return std::make_unique<ExactFfdMethod>(spec, context);
}

}  // namespace attest
