// Table of targets: how many of the prompts that have a run that meets a target fail, and which target follows.
#include <fmt/core.h>

#include <array>
#include <cmath>

#include "analysis/outcomes/pass_target.h"
#include "dumps/base/join.h"
#include "experiments/failure_prediction/failure_tables.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

/// Shares of failing prompts, each a guarantee of its own; the first is the one that `attest validate` makes by itself.
constexpr std::array kShares = {0.1, 0.2, 0.05, 0.02, 0.01};

Guarantee guarantee_of(double share) { return {.max_violating = share}; }

struct TargetRow {
  std::string predictor;
  PassCounts counts;
  std::array<bool, kShares.size()> certified = {};

  double failed_share() const {
    return counts.prompts > 0 ? static_cast<double>(counts.failed_prompts) / static_cast<double>(counts.prompts) : kNaN;
  }
};

Table table_of(const std::vector<TargetRow>& rows) {
  std::vector<ColumnOf<TargetRow>> columns = {
      {{.name = "predictor", .kind = kText}, [](const TargetRow& r) { return r.predictor; }},
      {{.name = "target", .kind = kText}, [](const TargetRow& r) { return r.counts.target.text; }},
      {{.name = "value", .decimals = 4}, [](const TargetRow& r) { return r.counts.target.value; }},
      {{.name = "runs", .heading = "runs that meet it", .decimals = 0},
       [](const TargetRow& r) { return static_cast<double>(r.counts.runs); }},
      {{.name = "failed_runs", .heading = "failed", .decimals = 0},
       [](const TargetRow& r) { return static_cast<double>(r.counts.failed_runs); }},
      {{.name = "prompts", .heading = "prompts with such a run", .decimals = 0},
       [](const TargetRow& r) { return static_cast<double>(r.counts.prompts); }},
      {{.name = "failed_prompts", .heading = "failed", .decimals = 0},
       [](const TargetRow& r) { return static_cast<double>(r.counts.failed_prompts); }},
      {{.name = "failed_share", .heading = "share"}, [](const TargetRow& r) { return r.failed_share(); }},
      {{.name = "failed_share_at_most", .heading = "at most (95 %)"}, [](const TargetRow& r) {
         return share_upper_bound(r.counts.failed_prompts, r.counts.prompts, guarantee_of(kShares[0]).confidence);
       }}};
  for (std::size_t s = 0; s < kShares.size(); ++s)
    columns.push_back({{.name = fmt::format("certified_{:g}", 100 * kShares[s]),
                        .heading = fmt::format("certified: at most {:g} %", 100 * kShares[s]),
                        .decimals = 0},
                       [s](const TargetRow& r) { return r.certified[s] ? 1.0 : 0.0; }});
  return make_table(rows, columns);
}

Finding finding_of(const OutcomeStudy& study, const std::vector<PassCounts>& counts) {
  const Guarantee guarantee = guarantee_of(kShares[0]);
  const std::string& metric = counts.front().target.quantity.name();
  const std::optional<std::size_t> found = laxest_certified(counts, guarantee);
  const std::string words =
      fmt::format("at most {:g} % of prompts like these fail in a run that meets it (confidence {:g} %)",
                  100 * guarantee.max_violating, 100 * guarantee.confidence);
  if (!found) {
    const PassCounts& laxest = counts.back();
    const std::int64_t needed = fewest_prompts(guarantee, {});
    return {.text = fmt::format("No target of {} is certified by these {}: that {} takes at least {} prompts that meet "
                                "it and answer right; the least strict, {}, is met by runs of {}, of which {} failed.",
                                metric, counted(static_cast<std::int64_t>(study.all.prompts.size()), "prompt"), words,
                                needed, laxest.target.text, counted(laxest.prompts, "prompt"), laxest.failed_prompts),
            .severity = Severity::warning};
  }
  const PassCounts& at = counts[*found];
  return {
      .text = fmt::format("Target {}: {}; here {} of {} do. To ask for it: attest validate RESULTS --selector LABEL "
                          "--target '{}'.",
                          at.target.text, words, at.failed_prompts, counted(at.prompts, "prompt"), at.target.text),
      .severity = Severity::good,
      .number = at.target.text};
}

}  // namespace

void add_targets(const OutcomeStudy& study, ExperimentResult& result) {
  std::vector<TargetRow> rows;
  for (const std::string& name : target_predictors()) {
    const std::optional<std::size_t> predictor = study.all.find(name);
    if (!predictor) continue;
    const std::vector<PassCounts> counts = pass_counts(study.all, *predictor, target_grid(name));
    std::array<std::optional<std::size_t>, kShares.size()> ends;
    for (std::size_t s = 0; s < kShares.size(); ++s) ends[s] = laxest_certified(counts, guarantee_of(kShares[s]));
    if (rows.empty()) result.findings.push_back(finding_of(study, counts));  // the preferred one
    for (std::size_t i = 0; i < counts.size(); ++i) {
      TargetRow row{.predictor = name, .counts = counts[i]};
      for (std::size_t s = 0; s < kShares.size(); ++s)
        row.certified[s] =
            ends[s] && i <= *ends[s] && counts[i].prompts >= fewest_prompts(guarantee_of(kShares[s]), {});
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) return;
  result.tables.push_back(
      {"failure_prediction_target",
       fmt::format(
           "Targets of attest validate, and the prompts that have a run that meets them; {}. A prompt fails if any of "
           "its runs that meet the target failed: its runs are not independent, and the prompt is the unit. The bound "
           "is exact (binomial). Certified: by the fixed sequence from the strictest target down, each at the full "
           "level, up to the first that is not certified; targets that too few prompts reach for any certificate are "
           "passed over. Each column and each metric is a claim of its own, at 95 %: choose one before looking. Of "
           "prompts that dense attention answers right.",
           study.source),
       table_of(rows)});
}

}  // namespace attest
