// quest: keeps the n pages with the largest upper bound of their tokens' scores. Pages have P tokens and count from 0.
//   page score = scale * sum_d max(q_d min_d, q_d max_d), min_d and max_d over the page (attention/page_scores.h)
//   rule: keep the n pages with the largest score; ties: lower page
//   preset = evaluation: n = min(max(3, floor(min(budget, L) / P)), pages); the last page competes like any other, so
//     that with more than three pages even budget = L drops one if P does not divide L
//   preset = kernel: n = min(max(1, floor(budget / P)), pages); the last page is one of them and is always kept
//   s^ of a token is its page's score
//   reads exact keys and values
//
// Source: Quest, section 3 and Algorithm 1; mit-han-lab/Quest
//   preset = evaluation: evaluation/quest_attention.py. It counts layers down from 32. For 32-layer models this
//     means dense_layers = 2.
//   preset = kernel: quest/utils/controller.py and kernels
//
// Bytes per KV head: pages * 4D + kept * 2(D + Dv).
#include <algorithm>

#include "kernels/attention/page_scores.h"
#include "kernels/rank/entry_levels.h"
#include "kernels/rank/sort_descending.h"
#include "kernels/selectors/quest_options.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

class Quest final : public SelectorWith<QuestOptions, make_cuda_quest> {
 public:
  explicit Quest(OptionReader& reader) : SelectorWith(reader) { finish(reader, 2); }

  SettingKind setting_kind() const override { return SettingKind::budget; }
  bool has_estimate() const override { return true; }
  std::string_view short_context(double budget, std::int64_t visible) const override {
    return kept_pages(budget, visible) == pages(visible) ? kKeepsEveryKey : std::string_view{};
  }

  void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    RowMatrix<double> scores;
    page_scores(head, page_, scores);
    out.estimate = &out.own_estimate;
    out.own_estimate.scores.resize(head.rows(), head.length);
    out.own_estimate.order.resize(head.rows(), head.length);
    std::vector<std::uint32_t> order(static_cast<std::size_t>(scores.columns()));
    std::vector<double> sums(order.size());
    std::vector<Level> levels(order.size());
    for (int r = 0; r < head.rows(); ++r) {
      const auto n = static_cast<std::size_t>(r / head.group);
      const std::int64_t visible = head.visible[n];
      const auto count = static_cast<std::size_t>(pages(visible));
      const auto row_order = std::span(order).first(count);
      const auto row_levels = std::span(levels).first(count);
      sort_descending(std::as_const(scores).row(r, static_cast<std::int64_t>(count)), row_order);
      expand_estimate(scores.row(r), row_order, visible, out.own_estimate, r);
      if (shared_) {
        if (r % head.group != 0) continue;
        add_over_group(scores, r, head.group, std::span(sums).first(count));
        sort_descending(std::span<const double>(sums).first(count), row_order);
      }
      page_levels(row_order, visible, grids[n].values, row_levels);
      for (int h = 0; h < (shared_ ? head.group : 1); ++h)
        for (std::size_t i = 0; i < count; ++i) {
          const std::int64_t begin = static_cast<std::int64_t>(i) * page_;
          std::fill(out.levels.row(r + h) + begin, out.levels.row(r + h) + std::min(visible, begin + page_), levels[i]);
        }
      out.io[n] = bytes(head.shape(), visible);
    }
    out.own_estimate.ranked = true;
  }

 private:
  /// Gives each token its page's score and expands the page order to a token order. The result is the stable order of
  /// the tokens because pages with equal scores are in ascending order.
  void expand_estimate(const double* scores, std::span<const std::uint32_t> order, std::int64_t visible,
                       RankedScores& estimate, int r) const {
    double* tokens = estimate.scores.row(r);
    std::uint32_t* ranked = estimate.order.row(r);
    for (std::uint32_t i : order) {
      const std::int64_t begin = static_cast<std::int64_t>(i) * page_, end = std::min(visible, begin + page_);
      std::fill(tokens + begin, tokens + end, scores[i]);
      for (std::int64_t j = begin; j < end; ++j) *ranked++ = static_cast<std::uint32_t>(j);
    }
  }

  static void add_over_group(const RowMatrix<double>& scores, int first, int group, std::span<double> sums) {
    std::copy_n(scores.row(first), sums.size(), sums.begin());
    for (int h = 1; h < group; ++h)
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += scores.row(first + h)[i];
  }

  /// Entry levels of the pages. `order` is the descending order of the pages and is overwritten.
  void page_levels(std::span<std::uint32_t> order, std::int64_t visible, std::span<const double> budgets,
                   std::span<Level> levels) const {
    std::vector<std::int64_t> counts;
    for (double budget : budgets) counts.push_back(kept_pages(budget, visible));
    if (preset_ == Preset::evaluation) return top_n_levels_of(order, counts, levels);
    for (std::int64_t& count : counts) --count;  // the last page is one of them
    const auto last = static_cast<std::uint32_t>(order.size() - 1);
    const auto others = std::remove(order.begin(), order.end(), last);
    top_n_levels_of({order.begin(), others}, counts, levels);
    levels[last] = 0;
  }
};

}  // namespace

extern const SelectorInfo quest_info;
const SelectorInfo quest_info{
    .name = "quest",
    .summary = "Quest: the pages whose upper bound of the score is largest",
    .io_bytes = "pages 4D + kept 2(D+Dv)",
    .source =
        "Quest, section 3 and Algorithm 1; mit-han-lab/Quest evaluation/quest_attention.py, quest/utils/controller.py",
    .studied_by_default = true,
    .make = make_from_options<Quest>};

}  // namespace attest
