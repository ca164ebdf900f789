// topk, topp, topdelta: oracles that apply a rule to the exact scores. They bound what any estimate can achieve under
// the same rule.
//   items: tokens (B = 1), or blocks of B tokens counted from 0, of which the last may be partial
//   score of a block: its largest score; mass of a block: the sum of its tokens' masses
//   topk: the n = max(1, floor(budget / B)) items with the largest score
//   topp: the smallest set, in descending mass, whose share of the total mass reaches p
//   topdelta: items with score >= m - delta, m the row's largest score
//   ties: lower item first
//   gqa = union: every head of a group keeps what any of them keeps
// Bytes per KV head: kept * 2(D + Dv). The cost of the exact scores is not counted.
#include <algorithm>
#include <cmath>

#include "kernels/base/lane_sum.h"
#include "kernels/device/on_cuda.h"
#include "kernels/rank/entry_levels.h"
#include "kernels/rank/group_policy.h"
#include "kernels/selectors/oracle_options.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

class Oracle : public Selector, protected OracleOptions {
 public:
  SettingKind setting_kind() const override { return kind_; }
  bool has_estimate() const override { return false; }

  bool needs_exact_order() const override { return true; }
  void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    for (int n = 0; n < head.num_queries; ++n) {
      const auto query = static_cast<std::size_t>(n);
      const std::int64_t visible = head.visible[query];
      const int first = n * head.group;
      for (int r = first; r < first + head.group; ++r) {
        const std::span row(out.levels.row(r), static_cast<std::size_t>(visible));
        std::ranges::fill(row, static_cast<Level>(grids[query].values.size()));
        row_levels(exact, r, visible, grids[query].values, row);
      }
      if (union_) take_group_minimum(out.levels, first, head.group, visible);
      out.io[query] = {.fixed = 0, .per_kept_token = head.shape().token_bytes(), .free_tokens = 0};
    }
  }

 protected:
  Oracle(OptionReader& reader, SettingKind kind) : OracleOptions(reader), kind_(kind) {
    if (kind == SettingKind::delta)
      finish_with_settings_file(reader, kind, "");
    else
      finish(reader, 0);
  }

  /// The items of one row: `best` their largest score, `mass` their sum of exp(s - m).
  struct Items {
    std::span<const double> best, mass;
    std::span<const std::uint32_t> token_order;  ///< in descending score; empty if items are blocks
    double max = 0;
    std::int64_t visible = 0;  ///< keys
  };
  virtual void item_levels(const Items& items, std::span<const double> settings, std::span<Level> levels) const = 0;
  virtual bool needs_mass() const { return false; }

 private:
  void row_levels(const RankedScores& exact, int r, std::int64_t visible, std::span<const double> settings,
                  std::span<Level> levels) const {
    const std::span<const double> scores = exact.scores.row(r, visible);
    const std::span<const std::uint32_t> order = exact.order.row(r, visible);
    Items items{.best = scores, .mass = {}, .token_order = order, .max = scores[order[0]], .visible = visible};
    std::vector<double> mass;
    if (needs_mass()) {
      mass.resize(scores.size());
      for (std::size_t j = 0; j < mass.size(); ++j) mass[j] = std::exp(scores[j] - items.max);
    }
    items.mass = mass;
    if (!by_block_) return item_levels(items, settings, levels);

    const auto block = static_cast<std::size_t>(block_), blocks = (scores.size() + block - 1) / block;
    std::vector<double> best(blocks), block_mass(needs_mass() ? blocks : 0);
    std::vector<Level> block_levels(blocks, static_cast<Level>(settings.size()));
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t begin = i * block, count = std::min(block, scores.size() - begin);
      best[i] = lane_max(count, scores[begin], [&](std::size_t t) { return scores[begin + t]; });
      if (needs_mass()) block_mass[i] = lane_sum(count, [&](std::size_t t) { return mass[begin + t]; });
    }
    items.best = best;
    items.mass = block_mass;
    items.token_order = {};
    item_levels(items, settings, block_levels);
    for (std::size_t j = 0; j < levels.size(); ++j) levels[j] = block_levels[j / block];
  }

  const SettingKind kind_;
};

class TopK final : public Oracle {
 public:
  explicit TopK(OptionReader& reader) : Oracle(reader, SettingKind::budget) {}
  std::shared_ptr<const CudaSelector> cuda_code() const override {
    return call_on_cuda<make_cuda_topk, OracleOptions>(*this);
  }
  std::string_view short_context(double budget, std::int64_t visible) const override {
    return kept_items(budget, visible) * block_ >= visible ? kKeepsEveryKey : std::string_view{};
  }

 private:
  void item_levels(const Items& items, std::span<const double> settings, std::span<Level> levels) const override {
    std::vector<std::int64_t> counts;
    for (double budget : settings) counts.push_back(kept_items(budget, items.visible));
    if (items.token_order.empty())
      top_n_levels(items.best, counts, levels);
    else
      top_n_levels_of(items.token_order, counts, levels);
  }
};

class TopP final : public Oracle {
 public:
  explicit TopP(OptionReader& reader) : Oracle(reader, SettingKind::p) {}
  std::shared_ptr<const CudaSelector> cuda_code() const override {
    return call_on_cuda<make_cuda_topp, OracleOptions>(*this);
  }

 private:
  bool needs_mass() const override { return true; }
  void item_levels(const Items& items, std::span<const double> settings, std::span<Level> levels) const override {
    if (items.token_order.empty())
      top_p_levels(items.mass, settings, levels);
    else
      top_p_levels_of(items.mass, items.token_order, settings, levels);
  }
};

class TopDelta final : public Oracle {
 public:
  explicit TopDelta(OptionReader& reader) : Oracle(reader, SettingKind::delta) {}
  std::shared_ptr<const CudaSelector> cuda_code() const override {
    return call_on_cuda<make_cuda_topdelta, OracleOptions>(*this);
  }
  double natural_delta(double setting, const ScoreTransform&) const override { return setting; }

 private:
  void item_levels(const Items& items, std::span<const double> settings, std::span<Level> levels) const override {
    std::vector<double> thresholds;
    for (double delta : settings) thresholds.push_back(items.max - delta);
    threshold_levels(items.best, thresholds, levels);
  }
};

constexpr std::string_view kBytes = "kept 2(D+Dv); reading the scores is not counted";
constexpr std::string_view kSource = "exact scores: an upper bound for any estimate under this rule";

}  // namespace

extern const SelectorInfo topk_info, topp_info, topdelta_info;
const SelectorInfo topk_info{.name = "topk",
                             .summary = "oracle: the tokens of largest exact score",
                             .io_bytes = kBytes,
                             .source = kSource,
                             .oracle = true,
                             .make = make_from_options<TopK>};
const SelectorInfo topp_info{.name = "topp",
                             .summary = "oracle: the fewest tokens that hold a share p of the exact softmax",
                             .io_bytes = kBytes,
                             .source = kSource,
                             .oracle = true,
                             .make = make_from_options<TopP>};
const SelectorInfo topdelta_info{.name = "topdelta",
                                 .summary = "oracle: the tokens within delta of the largest exact score",
                                 .io_bytes = kBytes,
                                 .source = kSource,
                                 .oracle = true,
                                 .make = make_from_options<TopDelta>};

}  // namespace attest
