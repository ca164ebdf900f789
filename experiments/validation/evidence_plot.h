// What prompts say of settings, as rows of a csv and as curves beside what the guarantee allows.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "experiments/validation/judgement.h"
#include "plots/figure.h"

namespace attest {

/// One point of a curve: a setting or a member of a family.
struct EvidenceRow {
  std::string curve;
  std::string setting = {};                ///< as typed
  double value = std::nan("");             ///< its place on an axis: setting_value()
  const Evidence* evidence = nullptr;      ///< null: none
  std::optional<std::size_t> target = {};  ///< the one whose mean deficit the curve shows
  double keep = std::nan(""), io = std::nan("");
  bool answer = false;  ///< the verdict is about it, and it passed
  double slack = std::nan("");
  std::optional<int> layer = {}, kv_head = {};  ///< of a unit
};

/// A point for each judged setting, the safest first.
std::vector<EvidenceRow> single_points(const Judgement& judgement);

/// `units`: with the columns slack, layer and kv_head.
Table evidence_table(const Judgement& judgement, const std::vector<EvidenceRow>& rows, bool units);

/// The rows of one curve of violating prompts, or for `mean` of a curve for each target: `points` for each of them.
std::vector<EvidenceRow> rows_of_curves(const Judgement& judgement, const std::string& name,
                                        const std::vector<EvidenceRow>& points);

/// Their look: `name` as for rows_of_curves(), `title` in the legend, against the column `x`. `style`: of the first.
std::vector<Series> evidence_series(const Judgement& judgement, const std::string& name, const std::string& title,
                                    const std::string& x, std::size_t style);

/// A panel for them, still without series: the y axis, and what the guarantee allows as lines.
Panel evidence_panel(const Judgement& judgement, const std::vector<EvidenceRow>& rows);

/// The note on what band and line are.
std::string evidence_note(const Judgement& judgement);

/// A number for a setting. A budget in per cent is that of the longest prompt.
double setting_value(const Judgement& judgement, std::size_t setting);
Axis setting_axis(const Judgement& judgement);

/// "60 prompts of the tasks kv, mk with 2048 to 4100 tokens; results r.h5 (0123456789abcdef)"
std::string source_text(const Judgement& judgement);

}  // namespace attest
