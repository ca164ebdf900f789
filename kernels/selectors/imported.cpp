// imported: applies a rule to estimates from a file, and reads keys and values from it. Methods written in Python
// (learned gates, an indexer, a quantiser, anything that scores keys or replaces them) can be studied without C++.
// README.md has worked examples.
//
// `file` is HDF5, laid out like a dump: /samples/<sample>/layers/<l>/<dataset> is [N, Hq or Hkv, ceil(T / B)]. An entry
// is an estimate for B tokens: B = 1 for granularity = token, else B = `block`. Blocks count from token 0 of the
// sample, also in layers with a sliding window. With Hkv, the heads of a group share one estimate. A query uses the
// entries that cover its visible keys. -inf is a valid estimate. A GPU ranks the nearest float32: estimates in float64
// that are the same float32 tie there, so that its kept set may differ from the CPU's.
//   rule = topk      the n = min(all, max(1, floor(budget / B))) best entries, ties to the lower one
//   rule = topp      the smallest set whose share of softmax(estimates) reaches p
//   rule = topdelta  estimate >= the largest - delta
//   rule = all       every token; it needs no estimates
// Then the first `sink` and the last `local` tokens are added. Then, with gqa = union, every head of a group keeps the
// tokens that any of them keeps. The estimate of a token is that of its entry.
//
// `keys` = k^ [Hkv, T, D] and `values` = v^ [Hkv, T, Dv] are data sets of the file, too:
//   s' = transform(q.k^), o = sum_j softmax(s')_j v^_j over the kept tokens
// What is not given is exact. Without `dataset` the estimates are s' (granularity = token).
//
// Bytes per KV head: scan_bytes * L + kept * token_bytes, with 2(D + Dv) for token_bytes = 0. The user states the cost
// of the estimate as scan_bytes. If it is 0, the cost is not counted, and summaries and figures say so.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "dumps/base/error.h"
#include "kernels/attention/scores.h"
#include "kernels/rank/entry_levels.h"
#include "kernels/rank/group_policy.h"
#include "kernels/rank/sort_descending.h"
#include "kernels/selectors/imported_options.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

class Imported final : public SelectorWith<ImportedOptions, make_cuda_imported> {
 public:
  explicit Imported(OptionReader& reader) : SelectorWith(reader) { finish(reader, 0); }

  SettingKind setting_kind() const override {
    switch (rule_) {
      case Rule::topk:
        return SettingKind::budget;
      case Rule::topp:
        return SettingKind::p;
      case Rule::topdelta:
        return SettingKind::delta;
      case Rule::all:
        break;
    }
    return SettingKind::none;
  }
  bool has_estimate() const override { return rule_ != Rule::all || estimates() || replaces(keys_); }
  bool estimates_scores() const override { return has_estimate() && (in_nats_ || (!estimates() && replaces(keys_))); }
  bool counts_scan() const override { return scan_bytes_ > 0 || rule_ == Rule::all; }
  double natural_delta(double setting, const ScoreTransform& transform) const override {
    return rule_ == Rule::topdelta && in_nats_ ? setting : Selector::natural_delta(setting, transform);
  }
  void check(const KvShape&) const override {
    const bool scores_keys = replaces(keys_) && source_.width == 1;
    if (source_.file.empty() || !(estimates() || scores_keys || (rule_ == Rule::all && replaces(values_))))
      throw UsageError(
          fmt::format("selector 'imported': option '{}' is missing; give file=FILE,dataset=NAME, or "
                      "file=FILE,rule=all with keys=NAME, values=NAME or both",
                      source_.file.empty() ? "file" : "dataset"));
  }
  std::string_view short_context(double setting, std::int64_t visible) const override {
    if (rule_ == Rule::all) return {};
    const bool all = rule_ == Rule::topk && kept_entries(setting, visible) * source_.width >= visible;
    return all || std::int64_t{sink_} + local_ >= visible ? kKeepsEveryKey : std::string_view{};
  }
  std::vector<std::string> input_files() const override { return {source_.file}; }
  std::vector<EstimateSource> estimate_sources() const override {
    std::vector<EstimateSource> sources;
    for (const EstimateSource& source : {source_, keys_, values_})
      if (!source.dataset.empty()) sources.push_back(source);
    if (sources.empty()) sources.push_back(source_);  // those that check() misses
    return sources;
  }
  std::shared_ptr<const CudaSelector> cuda_code() const override {
    const bool on_cpu = rule_ == Rule::all || replaces(keys_) || replaces(values_);
    return on_cpu ? nullptr : SelectorWith::cuda_code();
  }

  void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    read_replaced(head, out);
    if (has_estimate()) out.estimate = &out.own_estimate;
    if (estimates()) out.own_estimate.scores.resize(head.rows(), head.length);
    for (int n = 0; n < head.num_queries; ++n) {
      const auto query = static_cast<std::size_t>(n);
      const std::int64_t visible = head.visible[query];
      out.io[query] = bytes(head.shape(), visible);
      if (!has_estimate()) {
        for (int h = 0; h < head.group; ++h) std::fill_n(out.levels.row(n * head.group + h), visible, Level{0});
        continue;
      }
      const Entries range = entries(head.first_key, visible);
      std::vector<double> values(static_cast<std::size_t>(range.count));
      std::vector<Level> levels(values.size());
      for (int h = 0; h < head.group; ++h) {
        const int row = n * head.group + h;
        find_entries(head, n, h, range.first, out.own_estimate.scores.row(row), values);
        entry_levels(values, grids[query].values, levels);
        for (std::int64_t j = 0; j < visible; ++j) {
          const auto entry = static_cast<std::size_t>((head.first_key + j) / source_.width - range.first);
          const bool always = j < sink_ || j >= visible - local_;
          out.own_estimate.scores.row(row)[j] = values[entry];
          out.levels.row(row)[j] = always ? Level{0} : levels[entry];
        }
      }
      if (union_) take_group_minimum(out.levels, n * head.group, head.group, visible);
    }
  }

 private:
  bool estimates() const { return !source_.dataset.empty(); }
  static bool replaces(const EstimateSource& source) { return !source.dataset.empty(); }

  /// Scores of the replaced keys, which are the estimate, too, if there is no other; and the replaced values.
  void read_replaced(const KvHead& head, Selection& out) const {
    if (replaces(keys_)) {
      RowMatrix<double>& read = estimates() ? out.own_read_scores : out.own_estimate.scores;
      scores(head.queries, head.rows(), head.head_dim,
             find(head.estimates, keys_).vectors(head.kv_head, head.first_key, head.head_dim), head.length,
             head.transform, read);
      out.read_scores = &read;
    }
    if (!replaces(values_)) return;
    const float* values = find(head.estimates, values_).vectors(head.kv_head, head.first_key, head.value_dim);
    out.approximate_values.assign(values, values + head.length * head.value_dim);
    std::ranges::copy(head.visible, out.num_approximate.begin());
  }

  /// The entries of query n and head h of the group, from `first` on. `row`: the scores of the replaced keys.
  void find_entries(const KvHead& head, int n, int h, std::int64_t first, const double* row,
                    std::span<double> values) const {
    if (!estimates()) {
      std::copy_n(row, values.size(), values.begin());
      return;
    }
    const LayerEstimates& all = find(head.estimates, source_);
    const int own = (head.kv_head * head.group + h) / all.query_heads_per_estimate;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = all.at(head.first_query + n, own, first + static_cast<std::int64_t>(i));
  }

  void entry_levels(std::span<const double> values, std::span<const double> settings, std::span<Level> levels) const {
    const double largest = *std::ranges::max_element(values);
    std::vector<double> numbers;
    switch (rule_) {
      case Rule::topk: {
        std::vector<std::int64_t> counts;
        for (double budget : settings) counts.push_back(kept_entries(budget, static_cast<std::int64_t>(values.size())));
        return top_n_levels(values, counts, levels);
      }
      case Rule::topp: {
        std::vector<std::uint32_t> order(values.size());
        sort_descending(values, order);
        for (double x : values)
          numbers.push_back(x == largest ? 1 : std::exp(x - largest));  // -inf - -inf would be NaN
        return top_p_levels_of(numbers, order, settings, levels);
      }
      case Rule::topdelta:
        for (double delta : settings) numbers.push_back(largest - delta);
        return threshold_levels(values, numbers, levels);
      case Rule::all:
        std::ranges::fill(levels, Level{0});
    }
  }
};

}  // namespace

extern const SelectorInfo imported_info;
const SelectorInfo imported_info{.name = "imported",
                                 .summary = "estimates, keys and values from a file: your own method",
                                 .io_bytes = "scan_bytes L + kept token_bytes, 2(D+Dv) by default",
                                 .source = "user-provided",
                                 .make = make_from_options<Imported>};

}  // namespace attest
