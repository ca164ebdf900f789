// Compares every row, then explains those that leave their rounding.
#include "analysis/audit/layer_audit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/audit/hypothesis.h"
#include "analysis/layer/kv_head_batches.h"
#include "dumps/base/parallel_for.h"

namespace attest {
namespace {

/// Every row beside what was expected, and beside exact attention: [N, Hq].
struct Comparison {
  std::vector<RowFit> expected, exact;

  std::int64_t beyond() const {
    return std::ranges::count_if(expected, [](const RowFit& fit) { return !fit.explained(); });
  }
};

Comparison compare(const AuditInput& input, const AuditOptions& options, const LayerAmax& amax, const KvStorage& keys) {
  const AttentionLayer& layer = input.layer;
  const auto rows = static_cast<std::size_t>(layer.num_queries() * layer.shape.num_query_heads);
  const RoundingBound bound(layer.element_type, input.output_type, layer.shape.value_dim, options.roundings);
  Comparison found{std::vector<RowFit>(rows), std::vector<RowFit>(rows)};
  std::vector<ExpectedRows> workers(static_cast<std::size_t>(options.threads));
  for (ExpectedRows& worker : workers) worker.begin_layer();
  const std::vector<KvHeadBatch> batches = kv_head_batches(layer);
  parallel_for(options.threads, batches.size(), [&](int w, std::size_t i) {
    const KvHeadBatch& batch = batches[i];
    ExpectedRows& worker = workers[static_cast<std::size_t>(w)];
    worker.run(layer, batch, amax, options.expected, keys, options.stop);
    const int group = layer.shape.group();
    for (std::size_t r = 0; r < worker.exact.size(); ++r) {
      const std::int64_t query = batch.first_query + static_cast<std::int64_t>(r) / group;
      const int head = batch.kv_head * group + static_cast<int>(r) % group;
      const auto place = static_cast<std::size_t>(query * layer.shape.num_query_heads + head);
      const auto fit = [&](const RowPrediction& row) {
        return fit_row(input.observed(query, head), input.observed_lse(query, head), row.output, row.lse, row.rounding,
                       bound);
      };
      found.expected[place] = fit(worker.selected[r]);
      found.exact[place] = fit(worker.exact[r]);
    }
  });
  return found;
}

/// Threads that llama.cpp may have had: up to 16, then in steps of 8.
constexpr int kFewThreads = 16, kManyThreads = 128;

/// Rows that sums in float16 may explain (half_sums.h).
class HalfSumRows {
 public:
  HalfSumRows(const AuditInput& input, const AuditOptions& options, const KvStorages& storages, Comparison& found)
      : input_(input),
        options_(options),
        storages_(storages),
        bound_(input.layer.element_type, input.output_type, input.layer.shape.value_dim, options.roundings),
        found_(found) {
    const int heads = input.layer.shape.num_query_heads;
    for (std::int64_t n = 0; n < input.layer.num_queries(); ++n)
      for (int h = 0; h < heads; ++h)
        if (!found.expected[place({n, h})].explained()) rows_.push_back({n, h});
  }

  /// Sums in float16 explain a row that rounding alone does not: its fit becomes theirs. Returns the number of threads
  /// that explains most rows, or 0 if no row is explained.
  int run() {
    constexpr std::size_t kTried = 8;
    std::vector<RowPlace> few = rows_;
    std::ranges::stable_sort(few, std::greater(),
                             [&](const RowPlace& row) { return found_.expected[place(row)].excess; });
    few.resize(std::min(few.size(), kTried));
    int best = 0;
    std::int64_t maximum = 0;
    for (int threads = 1; threads <= kManyThreads && maximum < std::ssize(few);
         threads += threads < kFewThreads ? 1 : 8)
      if (const std::int64_t now = std::ranges::count_if(fits(few, threads), &RowFit::explained); now > maximum) {
        best = threads;
        maximum = now;
      }
    if (best == 0) return 0;
    take(fits(rows_, best));
    if (best > 1) take(fits(rows_, 1));  // a few rows of the prompt's end at once are not shared
    return best;
  }

 private:
  std::size_t place(const RowPlace& row) const {
    return static_cast<std::size_t>(row.query * input_.layer.shape.num_query_heads + row.head);
  }

  std::vector<RowFit> fits(std::span<const RowPlace> rows, int threads) const {
    Hypothesis hypothesis = plain_hypothesis(input_, storages_);
    hypothesis.half_sum_threads = threads;
    std::vector<RowFit> of_rows(rows.size());
    parallel_for(options_.threads, rows.size(), [&](int, std::size_t i) {
      const RowPrediction row = predict(input_, hypothesis, rows.subspan(i, 1), options_.stop).front();
      of_rows[i] = fit_row(input_.observed(rows[i].query, rows[i].head),
                           input_.observed_lse(rows[i].query, rows[i].head), row.output, row.lse, row.rounding, bound_);
    });
    return of_rows;
  }

  void take(const std::vector<RowFit>& of_rows) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      RowFit& fit = found_.expected[place(rows_[i])];
      if (!fit.explained() && of_rows[i].explained()) fit = of_rows[i];
    }
  }

  const AuditInput& input_;
  const AuditOptions& options_;
  const KvStorages& storages_;
  RoundingBound bound_;
  Comparison& found_;
  std::vector<RowPlace> rows_;
};

void add(HeadErrors& errors, const RowFit& fit) {
  errors.error = std::max(errors.error, fit.error);
  errors.lse_difference = std::max(errors.lse_difference, std::fabs(fit.lse_difference));
  errors.beyond += fit.explained() ? 0 : 1;
}

HeadErrors worst(const std::vector<HeadAudit>& heads, HeadErrors HeadAudit::*which) {
  HeadErrors all = heads.front().*which;
  for (std::size_t h = 1; h < heads.size(); ++h) {
    const HeadErrors& head = heads[h].*which;
    all.error = std::max(all.error, head.error);
    all.lse_difference = std::max(all.lse_difference, head.lse_difference);
    all.beyond += head.beyond;
  }
  return all;
}

std::string expected_text(const AuditOptions& options, const KvStorages& storages, const AttentionLayer& layer) {
  const Selector& selector = options.expected.selector;
  if (selector.name() == "exact" || selector.is_dense_layer(layer.layer, layer.shape.num_kv_heads))
    return "exact attention";
  return selector.name() == "kv_cache" ? storages_text(storages) : selector.name();
}

double median_bound(const std::vector<RowFit>& fits) {
  std::vector<double> bounds;
  for (const RowFit& fit : fits) bounds.push_back(fit.bound);
  const auto middle = bounds.begin() + std::ssize(bounds) / 2;
  std::ranges::nth_element(bounds, middle);
  return *middle;
}

/// What the layer's output is compared with.
struct Expectation {
  KvStorages storages;
  std::string own_rounding;  ///< of the engine, as LayerAudit has it
  Comparison found;
};

/// Of the roundings that an engine of this kind may have, the ones that explain most rows.
Expectation settle(const AuditInput& input, const AuditOptions& options, const LayerAmax& amax) {
  KvStorages storages = declared_storages(options.expected.selector, input.layer, amax);
  Comparison found = compare(input, options, amax, storages.keys);
  if (found.beyond() > 0 && has_integer_products(storages.keys)) {
    KvStorage integers = storages.keys;
    integers.integer_products = true;
    Comparison other = compare(input, options, amax, integers);
    if (other.beyond() < found.beyond()) {
      found = std::move(other);
      storages.keys = integers;
    }
  }
  std::string own_rounding = storages.keys.integer_products ? "queries in q8_0" : "";
  const std::string_view selector = options.expected.selector.name();
  if (found.beyond() > 0 && input.of_llama_cpp && storages.values.format == nullptr &&
      (selector == "exact" || selector == "kv_cache"))
    if (const int threads = HalfSumRows(input, options, storages, found).run(); threads > 0)
      own_rounding += fmt::format("{}values added up in float16{}", own_rounding.empty() ? "" : ", ",
                                  threads > 1 ? fmt::format(" by {} threads", threads) : "");
  return {std::move(storages), std::move(own_rounding), std::move(found)};
}

}  // namespace

HeadErrors LayerAudit::worst_expected() const { return worst(heads, &HeadAudit::expected); }
HeadErrors LayerAudit::worst_exact() const { return worst(heads, &HeadAudit::exact); }

LayerAudit audit_layer(const AuditInput& input, const AuditOptions& options) {
  const AttentionLayer& layer = input.layer;
  const LayerAmax amax = layer_amax(layer, options.threads);
  const Expectation expectation = settle(input, options, amax);
  const Comparison& found = expectation.found;
  LayerAudit audit{.layer = layer.layer,
                   .expected = expected_text(options, expectation.storages, layer),
                   .own_rounding = expectation.own_rounding,
                   .rows = std::ssize(found.expected),
                   .median_bound = median_bound(found.expected),
                   .heads = std::vector<HeadAudit>(static_cast<std::size_t>(layer.shape.num_query_heads)),
                   .first = {},
                   .explanation = {}};
  if (input.output_lse.empty())
    for (HeadAudit& head : audit.heads) head.expected.lse_difference = head.exact.lse_difference = NAN;
  std::vector<FailingRow> failing;
  bool decoded_agree = false, prompt_fails_alone = true;
  for (std::int64_t n = 0; n < layer.num_queries(); ++n)
    for (int h = 0; h < layer.shape.num_query_heads; ++h) {
      const auto place = static_cast<std::size_t>(n * layer.shape.num_query_heads + h);
      const RowFit& fit = found.expected[place];
      HeadAudit& head = audit.heads[static_cast<std::size_t>(h)];
      add(head.expected, fit);
      add(head.exact, found.exact[place]);
      const std::int64_t position = layer.query_positions[static_cast<std::size_t>(n)];
      const bool of_prompt = input.prompt_length && position < *input.prompt_length;
      decoded_agree = decoded_agree || (fit.explained() && !of_prompt);
      if (fit.explained()) continue;
      prompt_fails_alone = prompt_fails_alone && of_prompt;
      failing.push_back({{n, h}, fit.excess});
      if (!audit.first) audit.first = {position, h, fit};
    }
  audit.prompt_alone = !failing.empty() && prompt_fails_alone && decoded_agree;
  if (!failing.empty()) audit.explanation = explain(input, options, amax, expectation.storages, failing);
  return audit;
}

}  // namespace attest
