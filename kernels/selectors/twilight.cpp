// twilight: a base selector chooses a base set of tokens. Of these, each query head keeps the fewest that hold a share
// p of the softmax estimated from 4-bit keys.
//   base = quest: the n best pages, n = min(pages, max(1, floor(b / P)) + (b mod P > 0)), b = base_budget
//   base = none: all tokens
//   s^ = scale * q.k^ over all L tokens, k^ 4-bit asymmetric per token (quantize/token_asymmetric.h)
//   w = softmax of s^ over the base set
//   rule = exact: the smallest set in descending w whose sum reaches p, at least one token; ties: lower position
//   rule = reference: the released kernel's bisection (rank/top_p_bisection.h), which is not monotone in p
//   reads exact keys and values; weights = estimated: s' = s^
//
// Source: Twilight, sections 4.1 and 4.2 (select then prune, 4-bit estimate); tsinghua-ideal/Twilight
// twilight/pyimpl/quantize.py, csrc/include/sampling.cuh. The released evaluations compute the estimate in 16 bit; here
// it is float32.
//
// Bytes per KV head: pages * 4D (base = quest) + base-kept * (D/2 + 4) + kept * 2(D + Dv). base-kept and kept count the
// tokens of any head of the group.
#include <algorithm>
#include <cmath>

#include "kernels/attention/scores.h"
#include "kernels/rank/entry_levels.h"
#include "kernels/rank/sort_descending.h"
#include "kernels/rank/top_p_bisection.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/twilight_options.h"

namespace attest {
namespace {

class Twilight final : public SelectorWith<TwilightOptions, make_cuda_twilight> {
 public:
  explicit Twilight(OptionReader& reader) : SelectorWith(reader) { finish(reader, 2); }

  SettingKind setting_kind() const override { return SettingKind::p; }
  bool monotone() const override { return !reference_; }
  bool has_estimate() const override { return true; }
  std::string_view short_context(double, std::int64_t visible) const override {
    return quest_base_ && base_pages(visible) == pages(visible) ? "has a base set of every key" : std::string_view{};
  }

  void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    estimate_scores(head, out.own_estimate.scores);
    out.own_estimate.rank(out.covered, head.group);
    out.estimate = &out.own_estimate;
    if (estimated_weights_) out.read_scores = &out.own_estimate.scores;
    RowMatrix<double> scores_of_pages;
    if (quest_base_) page_scores(head, page_, scores_of_pages);
    std::vector<std::uint8_t> base(static_cast<std::size_t>(head.length)), base_of_group(base.size());
    for (int n = 0; n < head.num_queries; ++n) {
      const auto query = static_cast<std::size_t>(n);
      const std::int64_t visible = head.visible[query];
      std::fill(base_of_group.begin(), base_of_group.end(), std::uint8_t{0});
      for (int r = n * head.group; r < (n + 1) * head.group; ++r) {
        head.throw_if_stopped();
        select_base(scores_of_pages, r, visible, base);
        for (std::size_t j = 0; j < static_cast<std::size_t>(visible); ++j) base_of_group[j] |= base[j];
        select_row(out.own_estimate, r, visible, base, grids[query].values, out.levels.row(r));
      }
      const auto base_kept =
          static_cast<double>(std::count(base_of_group.begin(), base_of_group.end(), std::uint8_t{1}));
      out.io[query] = bytes(head.shape(), visible);
      out.io[query].fixed += base_kept * bytes_per_base(head.head_dim);
    }
  }

 private:
  static void estimate_scores(const KvHead& head, RowMatrix<double>& scores) {
    scores.resize(head.rows(), head.length);
    std::vector<float> keys(static_cast<std::size_t>(std::min(KvHead::kTokensAtOnce, head.length) * head.head_dim));
    head.each_tile(head.length, KvHead::kTokensAtOnce, [&](std::int64_t begin, std::int64_t count) {
      quantize_tokens(kKeyQuantizer, head.keys + begin * head.head_dim, count, head.head_dim, keys.data());
      scores_into(head.queries, head.rows(), head.head_dim, keys.data(), count, head.transform, scores.row(0) + begin,
                  scores.stride());
    });
  }

  /// base[j] = 1 for the tokens of the base set of row r.
  void select_base(const RowMatrix<double>& scores, int r, std::int64_t visible, std::span<std::uint8_t> base) const {
    std::fill(base.begin(), base.end(), std::uint8_t{!quest_base_});
    if (!quest_base_) return;
    std::vector<std::uint32_t> order(static_cast<std::size_t>(pages(visible)));
    sort_descending(scores.row(r, pages(visible)), order);
    for (std::uint32_t i : std::span(order).first(static_cast<std::size_t>(base_pages(visible)))) {
      const std::int64_t begin = static_cast<std::int64_t>(i) * page_;
      std::fill(base.begin() + begin, base.begin() + std::min(visible, begin + page_), std::uint8_t{1});
    }
  }

  void select_row(const RankedScores& estimate, int r, std::int64_t visible, std::span<const std::uint8_t> base,
                  std::span<const double> shares, Level* levels) const {
    const double* scores = estimate.scores.row(r);
    std::vector<std::uint32_t> order;  // of the base set
    order.reserve(static_cast<std::size_t>(visible));
    for (std::uint32_t j : estimate.order.row(r, visible))
      if (base[j] != 0) order.push_back(j);
    std::vector<double> mass(static_cast<std::size_t>(visible), 0.0);
    for (std::uint32_t j : order) mass[j] = std::exp(scores[j] - scores[order[0]]);
    std::fill_n(levels, visible, static_cast<Level>(shares.size()));
    const std::span row_levels(levels, static_cast<std::size_t>(visible));
    if (!reference_) return top_p_levels_of(mass, order, shares, row_levels);
    double total = 0;
    for (std::uint32_t j : order) total += mass[j];
    std::vector<float> weights(mass.size());
    for (std::size_t j = 0; j < mass.size(); ++j) weights[j] = static_cast<float>(mass[j] / total);
    for (std::size_t i = shares.size(); i-- > 0;) {
      const float threshold = top_p_bisection(weights, shares[i]);
      for (std::size_t j = 0; j < weights.size(); ++j)
        if (weights[j] > threshold) row_levels[j] = static_cast<Level>(i);
    }
  }
};

}  // namespace

extern const SelectorInfo twilight_info;
const SelectorInfo twilight_info{
    .name = "twilight",
    .summary = "Twilight: the fewest tokens of a base selector that hold a share p of a softmax from 4-bit keys",
    .io_bytes = "pages 4D + base-kept (D/2 + 4) + kept 2(D+Dv)",
    .source = "Twilight, section 4; tsinghua-ideal/Twilight twilight/pyimpl/quantize.py, csrc/include/sampling.cuh",
    .studied_by_default = true,
    .make = make_from_options<Twilight>};

}  // namespace attest
