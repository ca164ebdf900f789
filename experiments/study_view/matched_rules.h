// Top-k, top-p and top-delta over the same cells, each at the setting where all keep the same share of tokens.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "experiments/study_view/model_study.h"

namespace attest {

/// Three selectors that differ in their rule alone: the oracles, or ffd (or imported) under three values of `rule`.
struct RuleFamily {
  std::string name;                              ///< "oracle", "ffd", "imported"
  std::array<const PooledSelector*, 3> rules{};  ///< top-k, top-p, top-delta
};
inline constexpr std::array kRuleNames = {"top-k", "top-p", "top-delta"};

/// The families that the study has, oracles first.
std::vector<RuleFamily> rule_families(const ModelStudy& study);

/// Keep ratio and recall of every cell at every setting, for cells that have an entropy and are defined at all settings
/// of all three rules.
struct RuleCells {
  struct Setting {
    std::string label;
    std::optional<double> delta = {};  ///< of top-delta
    std::vector<float> keep, recall;   ///< [cells]
    double mean_keep = 0;
  };
  std::vector<float> entropy;                      ///< [cells]
  std::array<std::vector<Setting>, 3> rules = {};  ///< ascending by mean keep ratio
};

/// The cells of a family, without the layers `except`. Nothing if the three rules were not studied on the same cells.
std::optional<RuleCells> rule_cells(const ModelStudy& study, const RuleFamily& family, const std::set<int>& except);

/// A rule between two settings of its grid: every cell is interpolated linearly, so that the mean keep ratio is exact.
struct MatchedRule {
  std::string low, high;             ///< labels of the settings
  double weight = 0;                 ///< of `high`
  std::vector<double> keep, recall;  ///< [cells]
};

/// The rule at a mean keep ratio; nothing if that is outside the range of its grid.
std::optional<MatchedRule> matched(const std::vector<RuleCells::Setting>& settings, double mean_keep);

}  // namespace attest
