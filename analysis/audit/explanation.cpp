// Screens all hypotheses on a few rows, and tests what is left on all.
#include "analysis/audit/explanation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "analysis/audit/cache_screen.h"
#include "analysis/audit/fits.h"
#include "analysis/audit/hypothesis.h"
#include "dumps/base/parallel_for.h"

namespace attest {
namespace {

constexpr std::size_t kScreenedHeads = 2, kScreenedRows = 4;  ///< KV heads, and rows of each
constexpr std::size_t kMaxCandidates = 16;                    ///< tested at once, until one explains
constexpr std::size_t kMaxNearest = 3;

double capped(double excess) { return excess < 1e6 ? excess : 1e6; }  // NaN too

TestedHypothesis candidate_of(const Hypothesis& hypothesis, std::span<const RowFit> fits) {
  TestedHypothesis found{.kind = hypothesis.kind, .text = hypothesis.text, .note = hypothesis.note};
  double squares = 0;
  for (const RowFit& fit : fits) {
    found.within += fit.explained() ? 1 : 0;
    squares += capped(fit.excess) * capped(fit.excess);
    if (!(fit.error <= found.error)) {
      found.error = fit.error;
      found.bound = fit.bound;
    }
  }
  found.mean_excess = std::sqrt(squares / static_cast<double>(fits.size()));
  return found;
}

bool explains_all(const TestedHypothesis& candidate, std::size_t rows) {
  return candidate.within == static_cast<std::int64_t>(rows);
}

class Search {
 public:
  Search(const AuditInput& input, const AuditOptions& options, const LayerAmax& amax, const KvStorages& storages,
         std::span<const FailingRow> failing)
      : input_(input),
        options_(options),
        amax_(amax),
        storages_(storages),
        bound_(input.layer.element_type, input.output_type, input.layer.shape.value_dim, options.roundings),
        worst_first_(failing.begin(), failing.end()) {
    std::ranges::stable_sort(
        worst_first_, [](const FailingRow& a, const FailingRow& b) { return capped(a.excess) > capped(b.excess); });
    choose_screened();
    choose_tested();
  }

  Explanation run() {
    screen_structures();
    screen_caches();
    Explanation found;
    found.failing = std::ssize(worst_first_);
    found.tested = std::ssize(tested_);
    found.screened = std::ssize(screened_rows_);
    std::ranges::stable_sort(screened_, {}, [](const Screened& one) { return one.candidate.mean_excess; });
    const auto explains = [&](const Screened& one) { return explains_all(one.candidate, screened_rows_.size()); };
    const auto rest = std::ranges::stable_partition(screened_, explains);
    const auto num_explaining = static_cast<std::size_t>(rest.begin() - screened_.begin());
    std::size_t done = 0;
    while (done < num_explaining && found.explaining.empty()) {
      const std::size_t end = std::min(num_explaining, done + kMaxCandidates);
      test(std::span(screened_).subspan(done, end - done), found);
      done = end;
    }
    found.explaining_left_out = static_cast<std::int64_t>(num_explaining - done);
    if (found.explaining.empty()) test(std::span(rest).first(std::min<std::size_t>(rest.size(), kMaxNearest)), found);
    if (!found.explaining.empty()) found.nearest.clear();
    // A number that was fitted explains what a hypothesis without one does: it comes after.
    std::ranges::stable_sort(found.explaining, {},
                             [](const TestedHypothesis& one) { return std::pair(!one.note.empty(), one.mean_excess); });
    std::ranges::stable_sort(found.nearest, {}, &TestedHypothesis::mean_excess);
    found.nearest.resize(std::min(found.nearest.size(), kMaxNearest));
    return found;
  }

 private:
  struct Screened {
    Hypothesis hypothesis;
    TestedHypothesis candidate;
  };

  /// Predicts all tested rows.
  void test(std::span<const Screened> chosen, Explanation& found) const {
    std::vector<TestedHypothesis> candidates(chosen.size());
    parallel_for(options_.threads, chosen.size(), [&](int, std::size_t i) {
      candidates[i] = candidate_of(chosen[i].hypothesis, fits(chosen[i].hypothesis, tested_));
    });
    for (TestedHypothesis& one : candidates)
      (explains_all(one, tested_.size()) ? found.explaining : found.nearest).push_back(std::move(one));
  }

  int kv_head_of(const RowPlace& row) const { return row.head / input_.layer.shape.group(); }

  void choose_screened() {
    for (const FailingRow& row : worst_first_) {
      const int head = kv_head_of(row.place);
      if (!by_head_.contains(head) && by_head_.size() == kScreenedHeads) continue;
      if (by_head_[head].size() < kScreenedRows) by_head_[head].push_back(row.place);
    }
    for (const auto& [head, rows] : by_head_) screened_rows_.insert(screened_rows_.end(), rows.begin(), rows.end());
  }

  /// The screened rows, and others evenly spread.
  void choose_tested() {
    tested_ = screened_rows_;
    std::vector<RowPlace> others;
    for (const FailingRow& row : worst_first_)
      if (std::ranges::find(screened_rows_, row.place) == screened_rows_.end()) others.push_back(row.place);
    std::ranges::sort(others);
    const std::size_t more = std::min(others.size(), kMaxTested - tested_.size());
    for (std::size_t i = 0; i < more; ++i) tested_.push_back(others[i * others.size() / more]);
  }

  std::vector<RowFit> fits(const Hypothesis& hypothesis, std::span<const RowPlace> rows) const {
    const std::vector<RowPrediction> predictions = predict(input_, hypothesis, rows, options_.stop);
    std::vector<RowFit> found;
    for (std::size_t i = 0; i < rows.size(); ++i)
      found.push_back(fit_row(input_.observed(rows[i].query, rows[i].head),
                              input_.observed_lse(rows[i].query, rows[i].head), predictions[i].output,
                              predictions[i].lse, predictions[i].rounding, bound_));
    return found;
  }

  void screen_structures() {
    std::vector<Hypothesis> list = structural_hypotheses(input_, storages_);
    const auto is_known = [&](const Hypothesis& fitted) {
      const auto same_tokens = [&](const Hypothesis& known, const RowPlace& row) {
        const std::int64_t position = input_.layer.query_positions[static_cast<std::size_t>(row.query)];
        return known.tokens(position) == fitted.tokens(position);
      };
      return std::ranges::any_of(list, [&](const Hypothesis& known) {
        if (known.kind != fitted.kind) return false;
        if (fitted.kind == "scale") return std::fabs(known.transform.scale / fitted.transform.scale - 1) < 1e-3;
        return std::ranges::all_of(screened_rows_, [&](const RowPlace& row) { return same_tokens(known, row); });
      });
    };
    for (const auto& fitted : {fitted_window(input_, storages_, screened_rows_, bound_, options_.stop),
                               fitted_scale(input_, storages_, screened_rows_, options_.stop)})
      if (fitted && !is_known(*fitted)) list.push_back(*fitted);
    std::vector<TestedHypothesis> candidates(list.size());
    parallel_for(options_.threads, list.size(),
                 [&](int, std::size_t i) { candidates[i] = candidate_of(list[i], fits(list[i], screened_rows_)); });
    for (std::size_t i = 0; i < list.size(); ++i) screened_.push_back({std::move(list[i]), candidates[i]});
  }

  void screen_caches() {
    const Selector& selector = options_.expected.selector;
    const std::vector<KvStorage> keys = possible_storages(input_.layer, amax_, true, storages_.keys, selector),
                                 values = possible_storages(input_.layer, amax_, false, storages_.values, selector);
    const std::vector<std::pair<int, std::vector<RowPlace>>> heads(by_head_.begin(), by_head_.end());
    std::vector<std::vector<StoragePair>> of_heads(heads.size());
    const Hypothesis dumped = plain_hypothesis(input_, {});
    parallel_for(options_.threads, heads.size(), [&](int, std::size_t h) {
      const std::vector<RowPlace>& rows = heads[h].second;
      const std::vector<RowPrediction> known = predict(input_, dumped, rows, options_.stop);
      of_heads[h] = screen_storages(input_, keys, values, rows, known, bound_, options_.stop);
    });
    for (std::size_t p = 0; p < of_heads.front().size(); ++p) {
      std::vector<RowFit> fits;
      for (const std::vector<StoragePair>& pairs : of_heads)
        fits.insert(fits.end(), pairs[p].fits.begin(), pairs[p].fits.end());
      const KvStorages pair{keys[of_heads.front()[p].keys], values[of_heads.front()[p].values]};
      const bool was_expected = selector.name() == "exact" || selector.name() == "kv_cache";
      if (was_expected && pair.keys.same_as(storages_.keys) && pair.values.same_as(storages_.values)) continue;
      Hypothesis hypothesis = plain_hypothesis(input_, pair);
      const TestedHypothesis candidate = candidate_of(hypothesis, fits);
      screened_.push_back({std::move(hypothesis), candidate});
    }
  }

  const AuditInput& input_;
  const AuditOptions& options_;
  const LayerAmax& amax_;
  const KvStorages& storages_;
  RoundingBound bound_;
  std::vector<FailingRow> worst_first_;
  std::map<int, std::vector<RowPlace>> by_head_;  ///< screened rows by KV head
  std::vector<RowPlace> screened_rows_, tested_;
  std::vector<Screened> screened_;
};

}  // namespace

Explanation explain(const AuditInput& input, const AuditOptions& options, const LayerAmax& amax,
                    const KvStorages& storages, std::span<const FailingRow> failing) {
  return Search(input, options, amax, storages, failing).run();
}

}  // namespace attest
