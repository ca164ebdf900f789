// The options by which commands take a guarantee from the command line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/cli/options/global_options.h"
#include "experiments/validation/judge_results.h"

namespace attest {

/// The options as typed. Those that are parsed at once stand in `judgement`.
struct GuaranteeOptions {
  JudgementOptions judgement;
  std::map<SettingKind, std::string> settings = {};  ///< --delta, --budget, --p, --factor
  std::string guarantee = "prompts", bound = "wsr";
  std::vector<std::string> selectors = {};  ///< each is judged; empty: the only one
};

/// Whether a command judges at all without a target.
enum class Targets : std::uint8_t { required, optional };

/// Adds the options that say what is guaranteed: --target, --claim, --max-violating, --confidence, --bound, --clip,
/// --layers, --for-length, --extrapolate, --cluster. Where targets are optional, the others are refused without one.
void add_guarantee_options(Command& command, GuaranteeOptions& options, Targets targets);

/// Which selector and settings are judged, and what has a setting of its own.
void add_choice_options(Command& command, GuaranteeOptions& options);

/// Refuses what the guarantee would not look at. Throws UsageError.
void check_guarantee_options(const Command& command, const GuaranteeOptions& options);

/// The options for any of the selectors. Throws UsageError if two options each give one setting.
JudgementOptions judgement_options(const GuaranteeOptions& options, const GlobalOptions& global);

}  // namespace attest
