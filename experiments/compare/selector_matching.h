// Pairs the selectors and settings of two studies.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "analysis/results/results_file.h"
#include "analysis/statistics/paired_cells.h"
#include "experiments/compare/prompt_matching.h"

namespace attest {

/// One selector in both files.
struct MatchedSelector {
  std::size_t first = 0, second = 0;  ///< into Study::selectors
  std::string first_label, second_label;
  std::vector<IndexPair> settings;                   ///< of equal value, or as chosen; in the order of the first file
  std::vector<std::pair<double, double>> io = {};    ///< [settings] io_ratio that both read, where bytes were matched
  bool chosen = false;                               ///< LABEL1@SETTING=LABEL2@SETTING
  std::vector<std::string> only_first, only_second;  ///< settings that the other file lacks, as typed

  std::string name() const;  ///< "ffd", or "ffd=quest" for two labels
};

/// An option of a selector that the two studies gave other values.
struct OptionDifference {
  std::string selector;       ///< MatchedSelector::name()
  std::string option;         ///< "selector" for its kind
  std::string first, second;  ///< "-" where there is none
};

struct MatchedSelectors {
  std::vector<MatchedSelector> pairs;
  std::vector<std::string> only_first, only_second;  ///< labels; empty if selectors were chosen
  std::vector<OptionDifference> options;
};

/// `selectors`: parts, split at commas, of LABEL, LABEL1=LABEL2 or LABEL1@SETTING=LABEL2@SETTING, of which the last may
/// be of two kinds of setting; empty: every label that both have. `settings` as typed; empty: all. Selectors without
/// settings always stay. `same_bytes`: settings are left to match_bytes(). Throws UsageError for a label or setting
/// that is not there, InputError if nothing is common or the kinds of setting differ.
MatchedSelectors match_selectors(const ResultsFile& first, const ResultsFile& second,
                                 const std::vector<std::string>& selectors, const std::vector<std::string>& settings,
                                 bool same_bytes = false);

/// Pairs each setting of the first selector with the one of the second that reads most without reading more, by the
/// mean io_ratio over the prompts; settings without such a partner are left out. `settings`: of the first, as typed;
/// empty: all. Throws InputError if the studies lack io_ratio or nothing is left, UsageError for a setting that no
/// first selector has.
void match_bytes(const ResultsFile& first, const ResultsFile& second, const MatchedPrompts& prompts,
                 const std::vector<std::string>& settings, std::vector<MatchedSelector>& pairs);

}  // namespace attest
