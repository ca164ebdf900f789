// Selections without attention: FFD's scan and threshold on thumbnails, top-k and top-p of sub-blocks on 16-bit keys.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/decode_bench/exact_step_cuda.h"
#include "kernels/decode/baselines/block_selection_cuda.h"
#include "kernels/decode/baselines/key_scan_cuda.h"
#include "kernels/decode/ffd_decode_cuda.h"

namespace attest {
namespace {

std::size_t at_least_one(std::int64_t count) { return static_cast<std::size_t>(std::max<std::int64_t>(1, count)); }

/// What selections of sub-blocks share. Derived classes say what they rank by, and at which threshold.
class SubBlockSelection : public DecodeMethod {
 public:
  SubBlockSelection(const KernelSpec& spec, const DecodeContext& context)
      : spec_(spec),
        context_(context),
        step_(context),
        sizes_(step_.units(context.sub_block)),
        mask_(whole_sub_blocks()),
        counts_(at_least_one(sizes_.pairs) * sizeof(int)) {}

 protected:
  /// Of all pairs, with the last block full: caches have rows for whole blocks.
  std::size_t whole_sub_blocks() const {
    return static_cast<std::size_t>(sizes_.pairs * (sizes_.length / kFfdBlock + 1) * (kFfdBlock / sizes_.sub_block));
  }
  BlockSelection selection() const {
    return {.mask = reinterpret_cast<std::uint8_t*>(mask_.data()), .counts = reinterpret_cast<int*>(counts_.data())};
  }
  RankedBlocks ranked(const std::vector<double>& margins, double tolerance = kMarginTolerance) const {
    return {.margins = margins,
            .pairs = sizes_.pairs,
            .sub_blocks = sizes_.sub_blocks(),
            .tolerance = tolerance,
            .num_kv_heads = context_.inputs.what.shape.num_kv_heads};
  }
  std::int64_t asked_count() const { return sizes_.count_for(spec_.setting.value); }
  std::vector<double> head_values(bool masses) const {
    return masses ? context_.reference.masses(sizes_.sub_block)
                  : context_.reference.maxima(scan_bits(spec_), sizes_.sub_block);
  }

  /// Runs once, compares counts with `expected`, and fills shares and `scanned` bytes.
  KernelResult check_selection(const RankedBlocks& blocks, const std::vector<int>& expected, double delta,
                               double scanned) {
    enqueue(0, context_.stream);
    const std::vector<int> kept = on_host<int>(counts_, sizes_.pairs, context_.stream);
    KernelResult result;
    check_counts(name_of(spec_, context_), blocks, kept, expected, delta, result.check);
    result.check.against = "plain kernel in double precision, kept sub-blocks";
    result.setting = spec_.setting;
    result.keep_ratio = sizes_.keep_ratio(std::accumulate(kept.begin(), kept.end(), std::int64_t{0}));
    result.bytes = scanned;
    result.io_ratio = scanned / dense_bytes(context_.inputs.what);
    return result;
  }

  double key_bytes() const {
    return 2.0 * static_cast<double>(sizes_.pairs * sizes_.blocks() * kFfdBlock) * context_.inputs.what.shape.head_dim;
  }

  KernelSpec spec_;
  DecodeContext context_;
  ExactStep step_;
  KeptSubBlocks sizes_;
  DeviceBuffer mask_, counts_;
};

/// The threshold is applied to the maxima of the group, which is what the scan returns: one comparison per sub-block,
/// as in the fused kernel, though that compares each head with its own pseudo-maximum.
class FfdSelection final : public SubBlockSelection {
 public:
  FfdSelection(const KernelSpec& spec, const DecodeContext& context)
      : SubBlockSelection(spec, context),
        caches_(context.copies.quantised(scan_bits(spec))),
        margins_(group_margins()),
        delta_value_(static_cast<float>(delta_that_keeps(ranked(margins_), asked_count()))),
        maxima_(whole_sub_blocks() * sizeof(float)) {
    const std::vector<float> deltas(static_cast<std::size_t>(context.inputs.what.shape.num_kv_heads),
                                    static_cast<float>(delta_value_));
    delta_ = on_device(deltas.data(), deltas.size() * sizeof(float), context.stream);
    options_.scale = static_cast<float>(context.inputs.scale);
    options_.sub_block = sizes_.sub_block;
  }

  KernelResult check() override {
    const FfdBlockBytes block = ffd_block_bytes(caches_[0]->shape());
    KernelResult result = check_selection(ranked(margins_), counts_within(ranked(margins_), delta_value_), delta_value_,
                                          static_cast<double>(sizes_.pairs * sizes_.blocks() * block.record));
    result.delta = delta_value_;
    return result;
  }

  void enqueue(int copy, cudaStream_t stream) override {
    float* maxima = reinterpret_cast<float*>(maxima_.data());
    cuda_ffd_scan(*caches_[static_cast<std::size_t>(copy)], options_,
                  {.q = context_.inputs.q.data(), .maxima = maxima, .scores = nullptr}, stream);
    ExactCache group_as_head = step_.cache(0);
    group_as_head.group = 1;
    // Rows of the maxima: the cache's tokens are rounded up to whole blocks.
    group_as_head.max_tokens = caches_[0]->shape().max_tokens;
    group_as_head.stride = std::max(group_as_head.stride, group_as_head.max_tokens);
    cuda_select_top_delta(group_as_head, sizes_.sub_block, maxima,
                          {.delta = reinterpret_cast<const float*>(delta_.data())}, selection(), stream);
  }
  int copies() const override { return static_cast<int>(caches_.size()); }

 private:
  /// topdelta's, of the group's maxima as if they were those of one head.
  std::vector<double> group_margins() const {
    std::vector<double> maxima = topk_margins(head_maxima(context_, head_values(false)));
    for (double& value : maxima) value = -value;
    return topdelta_margins({.maxima = maxima,
                             .pairs = sizes_.pairs,
                             .sub_blocks = sizes_.sub_blocks(),
                             .group = 1,
                             .per_block = kFfdBlock / sizes_.sub_block});
  }

  const std::vector<std::unique_ptr<FfdCache>>& caches_;
  std::vector<double> margins_;
  double delta_value_ = 0;
  DeviceBuffer maxima_, delta_;
  FfdDecodeOptions options_;
};

class TopKSelection final : public SubBlockSelection {
 public:
  TopKSelection(const KernelSpec& spec, const DecodeContext& context)
      : SubBlockSelection(spec, context),
        keep_(static_cast<int>(std::clamp<std::int64_t>(
            std::llround(static_cast<double>(asked_count()) / static_cast<double>(sizes_.pairs)), 1,
            std::max<std::int64_t>(1, sizes_.sub_blocks())))),
        maxima_(whole_sub_blocks() * sizeof(float)) {}

  KernelResult check() override {
    const std::vector<double> margins = topk_margins(head_maxima(context_, head_values(false)));
    const auto expected = static_cast<int>(std::min<std::int64_t>(keep_, sizes_.sub_blocks()));
    return check_selection(ranked(margins), std::vector<int>(static_cast<std::size_t>(sizes_.pairs), expected),
                           kNotMeasured, key_bytes());
  }

  void enqueue(int copy, cudaStream_t stream) override {
    const ExactCache cache = step_.cache(copy);
    float* maxima = reinterpret_cast<float*>(maxima_.data());
    KeyScanCall scan;
    scan.q = step_.q();
    scan.maxima = maxima;
    cuda_key_scan(cache, sizes_.sub_block, scan, stream);
    cuda_select_top_k(cache, sizes_.sub_block, maxima, keep_, selection(), stream);
  }
  int copies() const override { return step_.copies(); }

 private:
  int keep_ = 1;
  DeviceBuffer maxima_;
};

class TopPSelection final : public SubBlockSelection {
 public:
  TopPSelection(const KernelSpec& spec, const DecodeContext& context)
      : SubBlockSelection(spec, context),
        margins_(topp_margins(head_maxima(context, head_values(true)))),
        mass_(std::min(1.0, delta_that_keeps(ranked(margins_), asked_count()))),
        scores_(at_least_one(context.inputs.rows() * sizes_.length) * sizeof(float)),
        scratch_(std::max<std::size_t>(1, top_p_scratch(step_.cache(0), sizes_.sub_block))) {}

  KernelResult check() override {
    const RankedBlocks blocks = ranked(margins_, kMassTolerance);
    return check_selection(blocks, counts_within(blocks, mass_), mass_, key_bytes());
  }

  void enqueue(int copy, cudaStream_t stream) override {
    const ExactCache cache = step_.cache(copy);
    float* scores = reinterpret_cast<float*>(scores_.data());
    KeyScanCall scan;
    scan.q = step_.q();
    scan.scores = scores;
    cuda_key_scan(cache, sizes_.sub_block, scan, stream);
    constexpr double kRuleTolerance = 1e-6;  // the rule takes p - 1e-6
    cuda_select_top_p(cache, sizes_.sub_block, scores, mass_ + kRuleTolerance, scratch_.data(), selection(), stream);
  }
  int copies() const override { return step_.copies(); }

 private:
  std::vector<double> margins_;
  double mass_ = 0;
  DeviceBuffer scores_, scratch_;
};

}  // namespace

std::unique_ptr<DecodeMethod> make_selection_method(const KernelSpec& spec, const DecodeContext& context) {
  if (spec.method == "ffd_scan") return std::make_unique<FfdSelection>(spec, context);
  if (spec.method == "block_topk") return std::make_unique<TopKSelection>(spec, context);
  if (spec.method == "token_topp") return std::make_unique<TopPSelection>(spec, context);
  throw NotMeasurable("this version of attest has no such kernel");
}

}  // namespace attest
