// Rows, curves and axes of evidence.
#include "experiments/validation/evidence_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "dumps/base/join.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

bool is_mean(const Judgement& judgement) { return judgement.request.guarantee.kind == GuaranteeKind::mean; }
bool is_observed(const Judgement& judgement) { return judgement.request.guarantee.kind == GuaranteeKind::observed; }

std::string curve_of(const Judgement& judgement, const std::string& name, std::size_t target) {
  return is_mean(judgement) ? curve_name(fmt::format("{}: {}", name, judgement.request.targets[target].text))
                            : curve_name(name);
}

/// A number of the evidence; NaN without any.
ColumnOf<EvidenceRow> of_evidence(const char* name, std::function<double(const Evidence&, const EvidenceRow&)> get) {
  return {{name}, [get = std::move(get)](const EvidenceRow& row) {
            return row.evidence == nullptr ? kNaN : get(*row.evidence, row);
          }};
}

}  // namespace

std::vector<EvidenceRow> single_points(const Judgement& judgement) {
  const Validation& single = judgement.single;
  std::vector<EvidenceRow> points;
  for (std::size_t i = 0; i < single.settings.size(); ++i) {
    const JudgedSetting& judged = single.settings[i];
    points.push_back({.curve = {},
                      .setting = judgement.label(judged.setting),
                      .value = setting_value(judgement, judged.setting),
                      .evidence = &judged.evidence,
                      .keep = judged.keep,
                      .io = judged.io,
                      .answer = single.passed == i});
  }
  return points;
}

Table evidence_table(const Judgement& judgement, const std::vector<EvidenceRow>& rows, bool units) {
  using Kind = Column::Kind;
  const Guarantee& guarantee = judgement.request.guarantee;
  const bool inferred = guarantee.kind != GuaranteeKind::observed;
  // The counts are those of the curve's target, or of all targets together.
  const auto prompts = [](const Evidence& e, const EvidenceRow& row) {
    return row.target ? e.targets[*row.target].prompts : e.prompts;
  };
  const auto violations = [](const Evidence& e, const EvidenceRow& row) {
    return row.target ? e.targets[*row.target].violations : e.violations;
  };
  std::vector<ColumnOf<EvidenceRow>> columns = {
      {{kCurveColumn, Kind::text}, [](const EvidenceRow& row) { return row.curve; }},
      {{"setting", Kind::text}, [](const EvidenceRow& row) { return display_name(row.setting); }},
      {{"value"}, [](const EvidenceRow& row) { return row.value; }},
      of_evidence("n", [=](const Evidence& e, const EvidenceRow& r) { return static_cast<double>(prompts(e, r)); }),
      of_evidence("k", [=](const Evidence& e, const EvidenceRow& r) { return static_cast<double>(violations(e, r)); }),
      of_evidence("share",
                  [=](const Evidence& e, const EvidenceRow& r) {
                    return static_cast<double>(violations(e, r)) / static_cast<double>(prompts(e, r));
                  }),
  };
  if (inferred) {
    const auto interval = [=](const Evidence& e, const EvidenceRow& r) {
      return clopper_pearson(violations(e, r), prompts(e, r), guarantee.confidence);
    };
    columns.push_back(
        of_evidence("share_low", [=](const Evidence& e, const EvidenceRow& r) { return interval(e, r).low; }));
    columns.push_back(
        of_evidence("share_high", [=](const Evidence& e, const EvidenceRow& r) { return interval(e, r).high; }));
    columns.push_back(of_evidence("share_at_most", [=](const Evidence& e, const EvidenceRow& r) {
      return share_upper_bound(violations(e, r), prompts(e, r), guarantee.confidence);
    }));
    columns.push_back(of_evidence("p_value", [](const Evidence& e, const EvidenceRow& r) {
      return r.target ? e.targets[*r.target].p_value : e.p_value;
    }));
  }
  if (is_mean(judgement))
    columns.push_back(of_evidence("mean_deficit", [](const Evidence& e, const EvidenceRow& r) {
      return r.target ? e.targets[*r.target].mean_deficit : kNaN;
    }));
  columns.push_back({{"verdict", Kind::text}, [](const EvidenceRow& row) {
                       return row.evidence == nullptr ? std::string() : std::string(name_of(row.evidence->certainty));
                     }});
  columns.push_back({{"answer"}, [](const EvidenceRow& row) { return row.answer ? 1.0 : 0.0; }});
  columns.push_back({{"keep_ratio"}, [](const EvidenceRow& row) { return row.keep; }});
  columns.push_back({{"io_ratio"}, [](const EvidenceRow& row) { return row.io; }});
  if (units) {
    const auto whole = [](const std::optional<int>& number) { return number ? static_cast<double>(*number) : kNaN; };
    columns.push_back({{"slack"}, [](const EvidenceRow& row) { return row.slack; }});
    columns.push_back({{"layer"}, [=](const EvidenceRow& row) { return whole(row.layer); }});
    columns.push_back({{"kv_head"}, [=](const EvidenceRow& row) { return whole(row.kv_head); }});
  }
  return make_table<EvidenceRow>(rows, columns);
}

std::vector<EvidenceRow> rows_of_curves(const Judgement& judgement, const std::string& name,
                                        const std::vector<EvidenceRow>& points) {
  const std::size_t curves = is_mean(judgement) ? judgement.request.targets.size() : 1;
  std::vector<EvidenceRow> rows;
  for (std::size_t t = 0; t < curves; ++t)
    for (const EvidenceRow& point : points) {
      EvidenceRow& row = rows.emplace_back(point);
      row.curve = curve_of(judgement, name, t);
      if (is_mean(judgement)) row.target = t;
    }
  return rows;
}

std::vector<Series> evidence_series(const Judgement& judgement, const std::string& name, const std::string& title,
                                    const std::string& x, std::size_t style) {
  std::vector<Series> list;
  if (!is_mean(judgement)) {
    Series series{.curve = curve_of(judgement, name, 0),
                  .title = title,
                  .x = x,
                  .y = "share",
                  .style = line_style(style),
                  .ring = "answer"};
    if (!is_observed(judgement)) series.bands = {{"share_low", "share_high"}};
    return {series};
  }
  for (std::size_t t = 0; t < judgement.request.targets.size(); ++t)
    list.push_back({.curve = curve_of(judgement, name, t),
                    .title = judgement.request.targets.size() == 1
                                 ? title
                                 : fmt::format("{}: {}", title, judgement.request.targets[t].text),
                    .x = x,
                    .y = "mean_deficit",
                    .style = line_style(style + t),
                    .ring = "answer"});
  return list;
}

Panel evidence_panel(const Judgement& judgement, const std::vector<EvidenceRow>& rows) {
  const Guarantee& guarantee = judgement.request.guarantee;
  if (!is_mean(judgement))
    return {.title = {},
            .x = {},
            .y = {.label = "violating (%)", .factor = 100, .low = 0},
            .series = {},
            .references = {{guarantee.max_violating * 100}}};
  Panel panel{.title = {}, .x = {}, .y = {.label = "mean deficit"}, .series = {}};
  double minimum = std::numeric_limits<double>::infinity();
  bool logarithmic = true;
  const bool several = judgement.request.targets.size() > 1;
  for (const Target& target : judgement.request.targets) {
    const double allowed = target.allowed_deficit();
    panel.references.push_back({allowed, several ? target.text : std::string()});
    logarithmic = logarithmic && allowed > 0;
    minimum = std::min(minimum, allowed);
  }
  if (!logarithmic) return panel;
  for (const EvidenceRow& row : rows)
    if (row.evidence != nullptr && row.target && row.evidence->targets[*row.target].mean_deficit > 0)
      minimum = std::min(minimum, row.evidence->targets[*row.target].mean_deficit);
  panel.y.scale = Scale::logarithmic;
  panel.y.floor = std::pow(10, std::floor(std::log10(minimum)) - 1);  // where no deficit at all is drawn
  return panel;
}

std::string evidence_note(const Judgement& judgement) {
  const Guarantee& guarantee = judgement.request.guarantee;
  if (guarantee.kind == GuaranteeKind::mean) return "dashed: allowed";
  return fmt::format("{}dashed: {:.6g} % allowed",
                     guarantee.kind == GuaranteeKind::prompts
                         ? fmt::format("band: {:.6g} % interval; ", guarantee.confidence * 100)
                         : "",
                     guarantee.max_violating * 100);
}

double setting_value(const Judgement& judgement, std::size_t setting) {
  return setting == kDense ? kNaN : judgement.set.selector.grid[setting].resolve(judgement.set.longest());
}

Axis setting_axis(const Judgement& judgement) {
  const StudySelector& selector = judgement.set.selector;
  if (!judgement.set.candidates.empty()) return {.label = "candidate", .whole_numbers = true};
  if (selector.kind == SettingKind::delta) return {.label = "δ"};
  if (selector.kind == SettingKind::p) return {.label = "p"};
  if (selector.kind == SettingKind::factor) return {.label = "factor", .scale = Scale::logarithmic};
  const bool percent = std::ranges::any_of(selector.grid, &Setting::percent);
  return {.label = percent ? fmt::format("budget (tokens of {})", judgement.set.longest()) : "budget (tokens)",
          .scale = Scale::logarithmic};
}

std::string source_text(const Judgement& judgement) {
  std::vector<std::string> results;
  for (const JudgedFile& file : judgement.results)
    results.push_back(fmt::format("{} ({})", std::filesystem::path(file.path).filename().string(), file.content_hash));
  return fmt::format("{} {}; results {}", counted(std::ssize(judgement.set.prompts), "prompt"),
                     scope_text(judgement.set), join(results, ", "));
}

}  // namespace attest
