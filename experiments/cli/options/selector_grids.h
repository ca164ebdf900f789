// The options --selector and --delta, --budget, ... (one per kind of setting), and the selectors that they mean.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/study/study.h"
#include "experiments/cli/parse/command.h"
#include "kernels/selectors/options.h"

namespace attest {

/// The texts of the options as typed.
struct SelectorGrids {
  std::vector<std::string> selectors;
  std::map<SettingKind, std::string> grids;  ///< a missing or empty one has its default grid
};

/// `options` must outlive the parse.
void add_selector_options(Command& command, SelectorGrids& options);

/// The selectors, each with its grid; without --selector those that are studied by default. All grids are parsed, so
/// that a typing error in one that no selector uses is reported, too. Throws UsageError.
std::vector<StudySelector> chosen_selectors(const SelectorGrids& options);

/// Parses "[LABEL=]NAME[:option=value,...]". The default label is the text as typed. Throws UsageError for other text,
/// or for a label that cannot name a group of a results file. make_selector checks the name and the options.
SelectorSpec parse_selector(std::string_view text);

/// The selector of --selector. Throws UsageError that names the option.
std::shared_ptr<Selector> make_typed_selector(const SelectorSpec& spec);

}  // namespace attest
