// imported: applies a rule to estimates from a file. Methods written in Python (learned gates, an indexer, anything
// that scores keys) can be studied without C++. kernels/README.md has a worked example.
//
// `file` is HDF5, laid out like a dump: /samples/<sample>/layers/<l>/<dataset> is [N, Hq or Hkv, ceil(T / B)]. An entry
// is an estimate for B tokens: B = 1 for granularity = token, else B = `block`. Blocks count from token 0 of the
// sample, also in layers with a sliding window. With Hkv, the heads of a group share one estimate. A query uses the
// entries that cover its visible keys. -inf is a valid estimate.
//   rule = topk      the n = min(all, max(1, floor(budget / B))) best entries, ties to the lower one
//   rule = topp      the smallest set whose share of softmax(estimates) reaches p
//   rule = topdelta  estimate >= the largest - delta
// Then the first `sink` and the last `local` tokens are added. Then, with gqa = union, every head of a group keeps the
// tokens that any of them keeps. Exact keys and values are read. The estimate of a token is that of its entry.
//
// Bytes per KV head: scan_bytes * L + kept * 2(D + Dv). The user states the cost of the estimate as scan_bytes. If it
// is 0, the cost is not counted, and summaries and figures say so.
#include "dumps/base/error.h"
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
    return rule_ == Rule::topk ? SettingKind::budget : rule_ == Rule::topp ? SettingKind::p : SettingKind::delta;
  }
  bool has_estimate() const override { return true; }
  bool estimates_scores() const override { return in_nats_; }
  bool counts_scan() const override { return scan_bytes_ > 0; }
  double natural_delta(double setting, const ScoreTransform& transform) const override {
    return rule_ == Rule::topdelta && in_nats_ ? setting : Selector::natural_delta(setting, transform);
  }
  void check(const KvShape&) const override {
    for (const auto& [option, value] : {std::pair("file", source_.file), std::pair("dataset", source_.dataset)})
      if (value.empty())
        throw UsageError("selector 'imported': option '" + std::string(option) +
                         "' is missing; give file=FILE,dataset=NAME");
  }
  std::string_view short_context(double setting, std::int64_t visible) const override {
    const bool all = rule_ == Rule::topk && kept_entries(setting, visible) * source_.width >= visible;
    return all || std::int64_t{sink_} + local_ >= visible ? kKeepsEveryKey : std::string_view{};
  }
  std::vector<std::string> input_files() const override { return {source_.file}; }
  std::optional<EstimateSource> estimate_source() const override { return source_; }

  void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    const LayerEstimates& estimates = find(head.estimates);
    out.own_estimate.scores.resize(head.rows(), head.length);
    out.estimate = &out.own_estimate;
    for (int n = 0; n < head.num_queries; ++n) {
      const auto query = static_cast<std::size_t>(n);
      const std::int64_t visible = head.visible[query];
      const Entries range = entries(head.first_key, visible);
      std::vector<double> values(static_cast<std::size_t>(range.count));
      std::vector<Level> levels(values.size());
      for (int h = 0; h < head.group; ++h) {
        const int row = n * head.group + h;
        const int own = (head.kv_head * head.group + h) / estimates.query_heads_per_estimate;
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = estimates.at(head.first_query + n, own, range.first + static_cast<std::int64_t>(i));
        entry_levels(values, grids[query].values, levels);
        for (std::int64_t j = 0; j < visible; ++j) {
          const auto entry = static_cast<std::size_t>((head.first_key + j) / source_.width - range.first);
          const bool always = j < sink_ || j >= visible - local_;
          out.own_estimate.scores.row(row)[j] = values[entry];
          out.levels.row(row)[j] = always ? Level{0} : levels[entry];
        }
      }
      if (union_) take_group_minimum(out.levels, n * head.group, head.group, visible);
      out.io[query] = bytes(head.shape(), visible);
    }
  }

 private:
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
    }
  }
};

}  // namespace

extern const SelectorInfo imported_info;
const SelectorInfo imported_info{.name = "imported",
                                 .summary = "a rule over estimates from a file: your own method",
                                 .io_bytes = "scan_bytes L + kept 2(D+Dv)",
                                 .source = "user-provided",
                                 .make = make_from_options<Imported>};

}  // namespace attest
