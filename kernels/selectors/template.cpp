// template: a minimal selector that has every part. To write your own, copy this file, fill in the four places marked
// (1) to (4), rename template_info at its end, and add the name to the list in registry.cpp (README.md). This file is
// compiled and tested, but not listed.
//
// The head of the file states the method: symbols as in README.md, formula, source, bytes.
//   s^_j = scale * |q| |k_j|, the Cauchy-Schwarz bound of the score
//   rule: keep the n = budget tokens with the largest bound
//   reads exact keys and values
// Source: none; an illustration. (It ranks tokens by the length of their keys alone, which is a poor idea.)
// Bytes per KV head: 2L (a 16-bit length per key) + kept * 2(D + Dv).
#include <algorithm>
#include <cmath>

#include "kernels/rank/entry_levels.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

class Template final : public Selector {
 public:
  // (1) Options. Read each once, with its default and its valid values. The reader throws UsageError for anything else.
  // Call finish() last: it reads `dense_layers`, the number of layers at the start of the model that use exact
  // attention.
  explicit Template(OptionReader& reader) {
    squared_ = reader.choice("length", {"plain", "squared"}, {"the length of a key, or its square"}) == "squared";
    finish(reader, 0);
  }

  // The parameter that a sweep varies: SettingKind::delta, budget, p, factor or none. A rule should be monotone: a
  // larger setting keeps everything that a smaller one keeps. If it is not, override monotone(), and each setting is
  // evaluated separately.
  SettingKind setting_kind() const override { return SettingKind::budget; }
  bool has_estimate() const override { return true; }

  // Handles one KV head and a batch of queries. A row is one (query, query head of the group). Row r sees the first
  // head.row_length(r) keys. Write the result into `out`, which has been reset to "no estimate, exact reads".
  void select(const KvHead& head, const RankedScores& /*exact: an oracle's*/, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    // (2) The estimate s^ of every score, in natural-log units like s. head.transform scales and soft-caps a dot
    // product. Omit this part if the method has no estimate, and return false from has_estimate().
    out.own_estimate.scores.resize(head.rows(), head.length);
    for (int r = 0; r < head.rows(); ++r)
      for (std::int64_t j = 0; j < head.row_length(r); ++j)
        out.own_estimate.scores.row(r)[j] = head.transform(
            length(head.queries + std::int64_t{r} * head.head_dim, head) * length(head.keys + j * head.head_dim, head));
    out.estimate = &out.own_estimate;
    out.own_estimate.rank(out.covered, head.group);  // the rule needs the order; correlations use it too

    // (3) The rule: each token's entry level, the index of the first ascending setting that keeps it, or S if none
    // does. rank/entry_levels.h has the three families of rules. Apply any policy over the heads of a group here.
    for (int r = 0; r < head.rows(); ++r) {
      std::vector<std::int64_t> counts;
      // Budgets are in tokens. 1 % of 50 keys resolves to 0 tokens, so keep at least one.
      for (double budget : grids[static_cast<std::size_t>(r / head.group)].values)
        counts.push_back(static_cast<std::int64_t>(std::max(1.0, budget)));
      top_n_levels_of(out.own_estimate.order.row(r, head.row_length(r)), counts,
                      {out.levels.row(r), static_cast<std::size_t>(head.row_length(r))});
    }

    // (4) The bytes that an ideal kernel of the method reads for this KV head and query.
    for (std::size_t n = 0; n < out.io.size(); ++n)
      out.io[n] = {.fixed = 2.0 * static_cast<double>(head.visible[n]),
                   .per_kept_token = head.shape().token_bytes(),
                   .free_tokens = 0};

    // If the method does not read exact keys and values, set out.read_scores (s'), out.approximate_values (v^) or
    // out.mean_value_share; see kivi.cpp and sparq.cpp. For metrics of your own, see ffd.cpp.
  }

 private:
  double length(const float* x, const KvHead& head) const {
    double square = 0;
    for (int d = 0; d < head.head_dim; ++d) square += static_cast<double>(x[d]) * static_cast<double>(x[d]);
    return squared_ ? square : std::sqrt(square);
  }

  bool squared_;
};

}  // namespace

extern const SelectorInfo template_info;
const SelectorInfo template_info{.name = "template",
                                 .summary = "the tokens of longest key: an illustration",
                                 .io_bytes = "2L + kept 2(D+Dv)",
                                 .source = "none",
                                 .make = make_from_options<Template>};

}  // namespace attest
