// skip_softmax: reads all keys and the values of tiles that matter.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "analysis/decode_bench/attention_result_cuda.h"
#include "analysis/decode_bench/exact_step_cuda.h"
#include "kernels/decode/baselines/skip_softmax_cuda.h"

namespace attest {
namespace {

class SkipSoftmaxMethod final : public DecodeMethod {
 public:
  SkipSoftmaxMethod(const KernelSpec& spec, const DecodeContext& context)
      : spec_(spec),
        context_(context),
        step_(context),
        sizes_(step_.units(kSkipTile)),
        delta_value_(delta_of(spec.setting.value, sizes_.length)),
        attention_(context),
        delta_(deltas_on_device(context, delta_value_)),
        kept_(static_cast<std::size_t>(sizes_.pairs) * sizeof(int)),
        splits_(skip_softmax_splits(step_.cache(0))),
        scratch_(std::max<std::size_t>(1, skip_softmax_scratch(step_.cache(0), splits_))) {
    if (sizes_.tail() != 0) throw NotMeasurable("skip_softmax is measured at multiples of 128 tokens");
  }

  KernelResult check() override {
    enqueue(0, context_.stream);
    const std::vector<int> kept = on_host<int>(kept_, sizes_.pairs, context_.stream);
    const std::vector<double> maxima = context_.reference.maxima(16, kSkipTile);
    const std::vector<double> margins = skip_margins({.maxima = maxima,
                                                      .pairs = sizes_.pairs,
                                                      .sub_blocks = sizes_.sub_blocks(),
                                                      .group = context_.inputs.what.shape.group(),
                                                      .per_block = 1},
                                                     splits_);
    const RankedBlocks blocks{.margins = margins,
                              .pairs = sizes_.pairs,
                              .sub_blocks = sizes_.sub_blocks(),
                              .num_kv_heads = context_.inputs.what.shape.num_kv_heads};
    KernelResult result;
    check_counts(name_of(spec_, context_), blocks, kept, counts_within(blocks, delta_value_), delta_value_,
                 result.check);
    check_attention(spec_, context_, 16, {.kept = lowest_margins(blocks, kept), .sub_block = kSkipTile}, attention_,
                    result);
    const std::int64_t all = std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
    result.bytes = step_.bytes(all, kSkipTile);
    result.io_ratio = result.bytes / dense_bytes(context_.inputs.what);
    result.keep_ratio = sizes_.keep_ratio(all);
    result.delta = delta_value_;
    result.setting = spec_.setting;
    return result;
  }

  void enqueue(int copy, cudaStream_t stream) override {
    cuda_skip_softmax(step_.cache(copy), splits_,
                      {.q = step_.q(),
                       .delta = reinterpret_cast<const float*>(delta_.data()),
                       .out = attention_.out.data(),
                       .lse = attention_.lse_values(),
                       .kept = reinterpret_cast<int*>(kept_.data()),
                       .scratch = scratch_.data()},
                      stream);
  }
  int copies() const override { return step_.copies(); }

 private:
  /// ln(L / factor), in float32 as the kernel takes it; a factor above L skips nothing.
  static double delta_of(double factor, std::int64_t length) {
    const double ratio = static_cast<double>(length) / factor;
    return ratio < 1 ? std::numeric_limits<double>::infinity() : static_cast<float>(std::log(ratio));
  }

  KernelSpec spec_;
  DecodeContext context_;
  ExactStep step_;
  KeptSubBlocks sizes_;
  double delta_value_ = 0;
  AttentionResult attention_;
  DeviceBuffer delta_, kept_;
  int splits_ = 1;
  DeviceBuffer scratch_;
};

}  // namespace

std::unique_ptr<DecodeMethod> make_skip_softmax_method(const KernelSpec& spec, const DecodeContext& context) {
  return std::make_unique<SkipSoftmaxMethod>(spec, context);
}

}  // namespace attest
