// The options by which commands take a claim from the command line.
#pragma once

#include <map>
#include <string>

#include "experiments/cli/global_options.h"
#include "experiments/validation/judge_results.h"

namespace CLI {
class App;
}

namespace attest {

/// As typed. What is parsed at once stands in `judgement`.
struct ClaimOptions {
  JudgementOptions judgement;
  std::map<SettingKind, std::string> settings = {};  ///< --delta, --budget, --p, --factor
  std::string claim = "prompts", bound = "wsr";
};

/// Whether a command makes no sense without a target.
enum class Targets : std::uint8_t { required, optional };

/// What is claimed: --target, --claim, --max-violating, --confidence, --bound, --clip, --layers, --for-length,
/// --extrapolate. The others are refused without a target.
void add_claim_options(CLI::App& command, ClaimOptions& options, Targets targets);

/// Which selector and settings are judged, and what has a setting of its own.
void add_choice_options(CLI::App& command, ClaimOptions& options);

/// Refuses what the claim would not look at. Throws UsageError.
void check_claim_options(const CLI::App& command, const ClaimOptions& options);

/// Throws UsageError if two options each give one setting.
JudgementOptions judgement_options(const ClaimOptions& options, const GlobalOptions& global);

}  // namespace attest
