// kivi: drops no token. Keys and values are quantised in 2-bit asymmetric groups (quantize/kivi_groups.h), except for a
// window of recent tokens in full precision.
//   keys: per channel, groups of g consecutive tokens from token 0
//   values: per token, groups of g channels
//   full precision: keys from floor((L - 1) / R) R on, and the last R + 1 values, as in the released cache in decode
//   s^ = s' = scale * q.k^
//   o = sum_j softmax(s')_j v^_j
//
// Source: KIVI, section 3; jy-yuan/KIVI models/llama_kivi.py, quant/new_pack.py. In the released code the prompt's
// queries attend in full precision. Here every query of a dump is treated as a decode query.
//
// Bytes per KV head, with nk quantised keys and nv quantised values:
//   nk D bits/8 + (nk/g) 4D + (L-nk) 2D + nv Dv bits/8 + nv (Dv/g) 4 + (L-nv) 2Dv
#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "kernels/attention/scores.h"
#include "kernels/selectors/kivi_options.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

class Kivi final : public SelectorWith<KiviOptions, make_cuda_kivi> {
 public:
  explicit Kivi(OptionReader& reader) : SelectorWith(reader) {
    finish(reader, 0);
    if (window_ % quantizer_.group != 0)
      throw UsageError(fmt::format("selector 'kivi': group is {}, expected a divisor of residual_length, which is {}",
                                   quantizer_.group, window_));
  }

  SettingKind setting_kind() const override { return SettingKind::none; }
  bool has_estimate() const override { return true; }
  std::string_view short_context(double, std::int64_t visible) const override {
    return visible <= window_ ? "quantises nothing" : std::string_view{};
  }
  void check(const KvShape& kv) const override {
    if (kv.value_dim % quantizer_.group != 0)
      throw UsageError(fmt::format("selector 'kivi': group is {}, expected a divisor of value_dim, which is {}",
                                   quantizer_.group, kv.value_dim));
  }

  void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid>,
              Selection& out) const override {
    KiviQuantizer quantizer = quantizer_;
    quantizer.element_type = head.element_type;
    out.own_estimate.scores.resize(head.rows(), head.length);
    out.estimate = &out.own_estimate;
    out.read_scores = &out.own_estimate.scores;
    score_quantised_keys(quantizer, head, out.own_estimate.scores);
    const std::int64_t values = quantised_values(head.length);
    out.approximate_values.resize(static_cast<std::size_t>(head.length * head.value_dim));
    kivi_quantize_per_token(quantizer, head.values, values, head.value_dim, out.approximate_values.data());
    for (int r = 0; r < head.rows(); ++r) {
      const std::int64_t visible = head.row_length(r), keys = quantised_keys(visible);
      std::copy(exact.scores.row(r) + keys, exact.scores.row(r) + visible, out.own_estimate.scores.row(r) + keys);
      std::fill_n(out.levels.row(r), visible, Level{0});
    }
    for (std::size_t n = 0; n < out.io.size(); ++n) {
      out.num_approximate[n] = quantised_values(head.visible[n]);
      out.io[n] = {.fixed = bytes(head.shape(), head.visible[n]), .per_kept_token = 0, .free_tokens = 0};
    }
  }

 private:
  /// Scores the quantised keys of the longest query. Groups count from token 0, so the quantised keys of a shorter
  /// query are a prefix of them.
  void score_quantised_keys(const KiviQuantizer& quantizer, const KvHead& head, RowMatrix<double>& scores) const {
    const std::int64_t keys = quantised_keys(head.length),
                       at_once = std::max<std::int64_t>(1, 256 / quantizer.group) * quantizer.group;
    std::vector<float> dequantised(static_cast<std::size_t>(std::min(keys, at_once) * head.head_dim));
    head.each_tile(keys, at_once, [&](std::int64_t begin, std::int64_t count) {
      kivi_quantize_per_channel(quantizer, head.keys + begin * head.head_dim, count, head.head_dim, dequantised.data());
      scores_into(head.queries, head.rows(), head.head_dim, dequantised.data(), count, head.transform,
                  scores.row(0) + begin, scores.stride());
    });
  }
};

}  // namespace

extern const SelectorInfo kivi_info;
const SelectorInfo kivi_info{
    .name = "kivi",
    .summary = "KIVI: every token, keys per channel and values per token in 2 bits",
    .io_bytes = "nk D bits/8 + (nk/g) 4D + (L-nk) 2D + nv Dv bits/8 + nv (Dv/g) 4 + (L-nv) 2Dv",
    .source = "KIVI, section 3; jy-yuan/KIVI models/llama_kivi.py, quant/new_pack.py",
    .studied_by_default = true,
    .make = make_from_options<Kivi>};

}  // namespace attest
