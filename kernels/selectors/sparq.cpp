// sparq: estimates scores from the r query channels of largest magnitude, keeps one set of tokens per KV head, and
// replaces the values of dropped tokens by the mean value.
//   I = the r channels of largest sum over the group of |q_hd|
//   s^_hj = scale * sqrt(|q_h|_1 / |q_h[I]|_1) * q_h[I].k_j[I]
//   group score, score = logits: sum over the group of s^, as in the released code
//   group score, score = softmax: sum over the group of softmax(s^), as in the paper's appendix B
//   rule: keep the m most recent tokens, and the best of the others up to n tokens in total; ties: lower position
//     count = code: n = budget + 1, m = floor(local * budget) + 1, because the query's own token is not counted
//     count = paper: n = budget, m = floor(local * budget)
//   y: attention over the kept set with exact keys and values; LSE is that of the kept set
//   mean_value = on: o_h = a_h y_h + (1 - a_h) mean(v over all L), a_h = mass of softmax(s^_h) on the kept set
//   mean_value = off: o = y, as in the paper for Llama 3 and Mistral
//   Learned sinks fade y, which is attention with the sink, and not the mean: the method does not know them. Where a
//   sink takes much of the mass, mean_value = off is nearer to exact attention.
//
// Source: SparQ Attention, section 4 and appendix B; graphcore-research/llm-inference-research
// llminference/methods/ann_attention.py (k = 128, local = k/4, r = 8 .. 64 in its sweeps).
// Bytes per KV head: 2rL + kept * 2(D + Dv) + 2Dv (the mean value, if used). The keys are stored in both layouts.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dumps/base/error.h"
#include "kernels/attention/scores.h"
#include "kernels/rank/sort_descending.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/sparq_options.h"

namespace attest {
namespace {

class Sparq final : public SelectorWith<SparqOptions, make_cuda_sparq> {
 public:
  explicit Sparq(OptionReader& reader) : SelectorWith(reader) { finish(reader, 0); }

  SettingKind setting_kind() const override { return SettingKind::budget; }
  bool has_estimate() const override { return true; }
  std::string_view short_context(double budget, std::int64_t visible) const override {
    return budget + (exclude_own_token_ ? 1 : 0) >= static_cast<double>(visible) ? kKeepsEveryKey : std::string_view{};
  }
  void check(const KvShape& kv) const override {
    if (rank_ > kv.head_dim)
      throw UsageError(
          fmt::format("selector 'sparq': rank is {}, expected at most head_dim, which is {}", rank_, kv.head_dim));
  }

  void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    out.own_estimate.scores.resize(head.rows(), head.length);
    out.estimate = &out.own_estimate;
    const std::vector<double>::size_type settings = grids[0].values.size();
    if (mean_value_) out.mean_value_share.resize(head.rows(), static_cast<std::int64_t>(settings));
    std::vector<double> group_scores;
    std::vector<std::uint32_t> order;
    for (int n = 0; n < head.num_queries; ++n) {
      const auto query = static_cast<std::size_t>(n);
      const std::int64_t visible = head.visible[query];
      estimate_scores(head, n, out.own_estimate.scores);
      add_over_group(head, n, out.own_estimate.scores, group_scores);
      order.resize(group_scores.size());
      sort_descending(group_scores, order);
      Level* levels = out.levels.row(n * head.group);
      std::fill_n(levels, visible, static_cast<Level>(settings));
      for (std::size_t i = settings; i-- > 0;)
        mark_kept(order, grids[query].values[i], static_cast<Level>(i), visible, levels);
      for (int h = 1; h < head.group; ++h) std::copy_n(levels, visible, out.levels.row(n * head.group + h));
      if (mean_value_)
        for (int r = n * head.group; r < (n + 1) * head.group; ++r)
          kept_mass(out.own_estimate.scores.row(r, visible), levels, {out.mean_value_share.row(r), settings});
      out.io[query] = bytes(head.shape(), visible);
    }
  }

 private:
  /// The channel set I of query n, in ascending order.
  std::vector<std::uint32_t> channels(const KvHead& head, int n) const {
    std::vector<double> magnitude(static_cast<std::size_t>(head.head_dim), 0.0);
    for (int r = n * head.group; r < (n + 1) * head.group; ++r)
      for (int d = 0; d < head.head_dim; ++d)
        magnitude[static_cast<std::size_t>(d)] +=
            std::fabs(static_cast<double>(head.queries[std::int64_t{r} * head.head_dim + d]));
    std::vector<std::uint32_t> order(magnitude.size());
    sort_descending(magnitude, order);
    order.resize(static_cast<std::size_t>(rank_));
    std::sort(order.begin(), order.end());
    return order;
  }

  void estimate_scores(const KvHead& head, int n, RowMatrix<double>& scores) const {
    const std::vector<std::uint32_t> set = channels(head, n);
    const std::int64_t visible = head.visible[static_cast<std::size_t>(n)];
    const auto gather = [&](const float* rows, std::int64_t count, std::vector<float>& chosen) {
      chosen.clear();
      for (std::int64_t i = 0; i < count; ++i)
        for (std::uint32_t d : set) chosen.push_back(rows[i * head.head_dim + d]);
    };
    const float* own = head.queries + std::int64_t{n} * head.group * head.head_dim;
    std::vector<float> queries, keys;
    gather(own, head.group, queries);
    head.each_tile(visible, KvHead::kTokensAtOnce, [&](std::int64_t begin, std::int64_t count) {
      gather(head.keys + begin * head.head_dim, count, keys);
      scores_into(queries.data(), head.group, rank_, keys.data(), count, {.scale = 1, .softcap = 0},
                  scores.row(n * head.group) + begin, scores.stride());
    });
    const auto norm = [](const float* x, int count) {
      return std::accumulate(x, x + count, 0.0,
                             [](double sum, float value) { return sum + std::fabs(static_cast<double>(value)); });
    };
    for (int h = 0; h < head.group; ++h) {
      const double all = norm(own + std::int64_t{h} * head.head_dim, head.head_dim),
                   seen = norm(queries.data() + std::int64_t{h} * rank_, rank_);
      const double coverage = seen > 0 ? std::sqrt(all / seen) : 1;
      double* row = scores.row(n * head.group + h);
      for (std::int64_t j = 0; j < visible; ++j) row[j] = head.transform(coverage * row[j]);
    }
  }

  void add_over_group(const KvHead& head, int n, const RowMatrix<double>& scores, std::vector<double>& sums) const {
    const std::int64_t visible = head.visible[static_cast<std::size_t>(n)];
    sums.assign(static_cast<std::size_t>(visible), 0.0);
    for (int r = n * head.group; r < (n + 1) * head.group; ++r) {
      const std::span<const double> row = scores.row(r, visible);
      if (!softmax_scores_) {
        for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += row[j];
        continue;
      }
      const double max = *std::max_element(row.begin(), row.end());
      double total = 0;
      for (double s : row) total += std::exp(s - max);
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += std::exp(row[j] - max) / total;
    }
  }

  /// Sets the level of all tokens that one setting keeps. Called from the largest setting down, so that each token ends
  /// with the smallest setting that keeps it.
  void mark_kept(std::span<const std::uint32_t> order, double budget, Level level, std::int64_t visible,
                 Level* levels) const {
    SparqKept setting = kept(budget, visible);
    std::fill(levels + setting.forced, levels + visible, level);
    for (std::size_t i = 0; i < order.size() && setting.others > 0; ++i)
      if (static_cast<int>(order[i]) < setting.forced) {
        levels[order[i]] = level;
        --setting.others;
      }
  }

  /// shares[i] = softmax mass of the tokens with level <= i.
  static void kept_mass(std::span<const double> scores, const Level* levels, std::span<double> shares) {
    const double max = *std::max_element(scores.begin(), scores.end());
    std::vector<double> mass(shares.size() + 1, 0.0);
    for (std::size_t j = 0; j < scores.size(); ++j) mass[levels[j]] += std::exp(scores[j] - max);
    const double total = std::accumulate(mass.begin(), mass.end(), 0.0);
    double sum = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) shares[i] = (sum += mass[i]) / total;
  }
};

}  // namespace

extern const SelectorInfo sparq_info;
const SelectorInfo sparq_info{
    .name = "sparq",
    .summary = "SparQ: scores from the query's largest channels, one set per KV head, the mean value for the rest",
    .io_bytes = "2rL + kept 2(D+Dv) + 2Dv",
    .source =
        "SparQ Attention, section 4; graphcore-research/llm-inference-research llminference/methods/ann_attention.py",
    .make = make_from_options<Sparq>};

}  // namespace attest
