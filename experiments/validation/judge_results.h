// From options as typed to a judgement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/validation/judgement.h"

namespace attest {

/// What `attest validate` and the section of `attest report` let the user choose, as typed where it is still to be
/// parsed.
struct JudgementOptions {
  std::vector<std::string> targets;
  std::string setting;                           ///< judge this one; empty: find the smallest certified one
  std::optional<SettingKind> setting_kind = {};  ///< the option that gave it
  std::string grid;                              ///< look among these; empty: all
  std::string model, selector, layers;           ///< empty: the only one; all
  Claim claim;                                   ///< seed: that of everything drawn
  std::string per = "model";                     ///< "model", "layer", "kv_head"
  std::optional<double> choosing, io_budget;     ///< empty: 0.5; no budget
  std::optional<std::int64_t> for_length;        ///< tokens of the prompts that the setting is meant for
  bool extrapolate = false;
  bool recommends = false;  ///< a recommendation file will be written
  int threads = 1;
};

inline const std::vector<std::string> kClaimNames = {"prompts", "mean", "observed"};
inline const std::vector<std::string> kBoundNames = {"hb", "wsr", "bootstrap"};
inline const std::vector<std::string> kUnitNames = {"model", "layer", "kv_head"};

/// What can be refused before anything is read or computed. Throws UsageError.
void check_options(const JudgementOptions& options);

/// Names and content hashes of the files. Reads all of them.
std::vector<JudgedFile> judged_files(ResultsFiles files, int threads);

/// `hashed`: judged_files() of `files`, for who has them. The files must outlive the judgement. Throws UsageError,
/// InputError; NotCertified if options.for_length lies outside of the lengths of the prompts.
Judgement judge_results(ResultsFiles files, const JudgementOptions& options,
                        std::optional<std::vector<JudgedFile>> hashed = {});

}  // namespace attest
