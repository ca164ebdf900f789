// The options --selector and --delta, --budget, ... (one per kind of setting), and the selectors that they mean.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace CLI {
class App;
}

namespace attest {

/// As typed.
struct SelectorGrids {
  std::vector<std::string> selectors;
  std::map<SettingKind, std::string> grids;  ///< a missing or empty one has its default grid
};

/// `options` must outlive the parse.
void add_selector_options(CLI::App& command, SelectorGrids& options);

/// The selectors, each with its grid; without --selector those that are studied by default. All grids are parsed, so
/// that a typing error in one that no selector uses is reported, too. Throws UsageError.
std::vector<StudySelector> chosen_selectors(const SelectorGrids& options);

/// A list option that may be repeated (CLI::MultiOptionPolicy::Join): CLI11 joins the values by line breaks, which
/// become commas. (Joining by commas would make it split at commas first, and drop empty elements.)
void join_list(std::string& text);
void join_lists(SelectorGrids& options);  ///< its grids

}  // namespace attest
