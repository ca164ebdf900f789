// Pairs the selectors and settings of two studies.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/results/results_file.h"
#include "analysis/statistics/paired_cells.h"

namespace attest {

/// One selector in both files.
struct MatchedSelector {
  std::size_t first = 0, second = 0;  ///< into Study::selectors
  std::string first_label, second_label;
  std::vector<IndexPair> settings;                   ///< of equal value, in the order of the first file
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

/// `selectors`: parts, split at commas, of LABEL or LABEL1=LABEL2; empty: every label that both have. `settings` as
/// typed; empty: all. Selectors without settings always stay. Throws UsageError for a label or setting that is not
/// there, InputError if nothing is common or the kinds of setting differ.
MatchedSelectors match_selectors(const ResultsFile& first, const ResultsFile& second,
                                 const std::vector<std::string>& selectors, const std::vector<std::string>& settings);

}  // namespace attest
