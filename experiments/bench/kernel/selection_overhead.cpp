// Time of choosing blocks or tokens, by rule, at the same share of kept tokens.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "dumps/base/join.h"
#include "experiments/bench/kernel/kernel_experiments.h"
#include "experiments/bench/kernel/point_columns.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace selection_overhead_figure {

constexpr const char* kOptions = "--only selection_overhead --lengths 16K --batch 1 -o FILE";

/// A rule of the paper's table, with its numbers of an RTX 4090.
struct Rule {
  const char* method;
  const char* name;
  double keep, milliseconds;  ///< the paper's, of a head
};
constexpr std::array<Rule, 4> kRules{{{"ffd_scan", "top-delta", 0.273, 0.0044},
                                      {"block_topk", "top-k", 0.275, 0.0090},
                                      {"token_topp", "top-p", 0.273, 0.1115},
                                      {"kivi_scan", "none (KIVI, dense)", 1, 0.0186}}};

struct Row {
  KernelPoint point;
  const Rule* rule = nullptr;
  KernelPoint topdelta;  ///< that it is compared with; no method: none
  double milliseconds = kNotMeasured;

  double ratio() const { return topdelta.method.empty() ? kNotMeasured : point.us / topdelta.us; }
  double paper_ratio() const { return rule->milliseconds / kRules[0].milliseconds; }
};

/// The top-delta selection at the same length, batch size and setting. Of a rule without settings, and where there is
/// no such one, the one whose share of kept tokens is nearest to that of the paper.
KernelPoint topdelta_of(const std::vector<KernelPoint>& points, const KernelPoint& point) {
  KernelPoint best;
  const auto distance = [&](const KernelPoint& p) {
    const bool same = p.setting.kind == point.setting.kind && p.setting.value == point.setting.value;
    return std::pair(!same, std::abs(p.keep - kRules[0].keep));
  };
  for (const KernelPoint& p : points) {
    if (p.method != kRules[0].method || p.length != point.length || p.batch != point.batch) continue;
    if (best.method.empty() || distance(p) < distance(best)) best = p;
  }
  return best;
}

std::vector<Row> rows_of(const KernelStudy& study) {
  const std::vector<KernelPoint> points = study.points("selection_overhead");
  std::vector<Row> rows;
  for (const KernelPoint& point : points) {
    const auto rule = std::ranges::find(kRules, point.method, &Rule::method);
    if (rule == kRules.end()) continue;
    rows.push_back({.point = point,
                    .rule = &*rule,
                    .topdelta = topdelta_of(points, point),
                    .milliseconds = study.milliseconds_per_head(point)});
  }
  std::ranges::stable_sort(rows, {}, [](const Row& r) {
    return std::tuple(r.point.batch, r.point.length, r.point.setting.kind == "none", r.point.setting.value, r.rule);
  });
  return rows;
}

Table table_of(const std::vector<Row>& rows) {
  return make_table<Row>(
      rows,
      {{{"rule", kText}, [](const Row& r) { return r.rule->name; }},
       {{"method", kText}, [](const Row& r) { return r.point.method; }},
       {{"setting", kText}, [](const Row& r) { return setting_text(r.point.setting); }},
       of_point<Row>("batch"),
       of_point<Row>("length"),
       of_point<Row>("layers"),
       of_point<Row>("keep_ratio"),
       {{.name = "ms_per_head", .heading = "ms/head", .decimals = 5}, [](const Row& r) { return r.milliseconds; }},
       of_point<Row>("us"),
       of_point<Row>("us_low"),
       of_point<Row>("us_high"),
       of_point<Row>("floor_us"),
       of_point<Row>("floor_ratio"),
       {{.name = "over_topdelta", .heading = "time / top-delta's", .decimals = 2},
        [](const Row& r) { return r.ratio(); }},
       {{.name = "paper_rtx4090_keep_ratio", .heading = "paper, RTX 4090: tokens kept"},
        [](const Row& r) { return r.rule->keep; }},
       {{.name = "paper_rtx4090_ms_per_head", .heading = "paper, RTX 4090: ms/head", .decimals = 4},
        [](const Row& r) { return r.rule->milliseconds; }},
       {{.name = "paper_rtx4090_over_topdelta", .heading = "paper, RTX 4090: time / top-delta's", .decimals = 2},
        [](const Row& r) { return r.paper_ratio(); }}});
}

constexpr double kMatched = 0.05;  ///< relative difference of kept tokens that still counts as the same share

std::vector<Finding> findings_of(const std::vector<Row>& rows) {
  std::vector<Finding> findings;
  for (const Row& row : rows) {
    if (row.rule == &kRules[0] || row.topdelta.method.empty()) continue;
    const bool dense = row.point.method == "kivi_scan";
    const double difference = std::abs(row.point.keep / row.topdelta.keep - 1);
    std::string text = fmt::format(
        "At {} tokens, batch {}, {} takes {:.2f} times as long as top-delta selection (paper, RTX 4090: {:.1f} times)",
        length_text(row.point.length), row.point.batch, dense ? "a scan without selection (KIVI)" : row.rule->name,
        row.ratio(), row.paper_ratio());
    if (!dense && difference <= kMatched)
      text += fmt::format(", both at {:.1f} % of the tokens", 100 * row.topdelta.keep);
    text += ".";
    const bool mismatched = !dense && difference > kMatched;
    if (mismatched)
      text += fmt::format(
          " The shares differ: {:.1f} % of the tokens against {:.1f} %, so that the times are not of "
          "the same sparsity.",
          100 * row.point.keep, 100 * row.topdelta.keep);
    findings.push_back({.text = std::move(text),
                        .severity = mismatched ? Severity::warning : Severity::note,
                        .number = fmt::format("{:.2f}x", row.ratio())});
  }
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const KernelStudy& study, const ExperimentOptions&) {
  const std::vector<Row> rows = rows_of(study);
  if (std::ranges::none_of(rows, [](const Row& r) { return r.rule == &kRules[0]; }))
    return Unsupported{"needs the time of top-delta selection alone (ffd_scan)", kOptions};
  ExperimentResult result{.findings = findings_of(rows)};
  const std::vector<Finding> left = study.left_out({"ffd_scan", "block_topk", "token_topp", "kivi_scan"});
  result.findings.insert(result.findings.end(), left.begin(), left.end());
  result.tables.push_back(
      {"selection_overhead",
       fmt::format("Time of scan and selection, without attention; {}. Per head: the time of the layer over its {} "
                   "query heads (times the batch size where that is above 1). Top-delta is the scan with its "
                   "threshold, top-k and top-p scan 16-bit keys and then select, KIVI scans all. The paper's numbers "
                   "are those of an RTX 4090 at 16K tokens.",
                   study.source(), study.report().shape.num_query_heads),
       table_of(rows)});
  return result;
}

}  // namespace selection_overhead_figure

KernelExperiment selection_overhead() {
  return {.name = "selection_overhead",
          .paper = "Table 'Per-head selection latency at matched keep ratio'",
          .needs = "a file of attest bench kernel with ffd_scan, block_topk, token_topp and kivi_scan",
          .make = selection_overhead_figure::make};
}

}  // namespace attest
