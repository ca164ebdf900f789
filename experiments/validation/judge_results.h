// Makes a judgement from options as typed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/outcomes/tasks_file.h"
#include "experiments/validation/judgement.h"

namespace attest {

/// What the user of `attest validate` and of the section in `attest report` may choose. What is still to be parsed
/// stands here as typed.
struct JudgementOptions {
  std::vector<std::string> targets;
  std::string setting;                           ///< judge this one; empty: find the smallest certified one
  std::optional<SettingKind> setting_kind = {};  ///< the option that gave it
  std::string grid;                              ///< look among these; empty: all
  std::vector<std::string> candidates;           ///< look among these labels instead of settings of one selector
  std::string model, selector, layers;           ///< empty: the only one; all
  std::string cluster;                           ///< PromptScope::cluster
  Guarantee guarantee;                           ///< seed: that of everything drawn
  std::string per = "model";                     ///< "model", "layer", "kv_head"
  std::optional<double> choosing, io_budget;     ///< empty: 0.5; no budget
  std::optional<std::int64_t> for_length;        ///< tokens of the prompts that the setting is meant for
  bool extrapolate = false;
  bool recommends = false;  ///< a recommendation file will be written
  int threads = 1;
};

/// Throws UsageError for what can be refused before anything is read or computed. `answers`: answers will be judged,
/// too.
void check_options(const JudgementOptions& options, bool answers = false);

/// Before samples are studied, refuses several models, and a cluster or a length that the samples do not have. Throws
/// what judge_results() would.
void check_samples(std::span<const StudyDump> dumps, const JudgementOptions& options);

/// Names and content hashes of the files. Reads all of them.
std::vector<JudgedFile> judged_files(ResultsFiles files, int threads, std::span<const TasksFile> tasks = {});

/// Judges cells, answers, or both together: with `tasks` a prompt also violates if its answer is wrong where dense
/// attention answers right. `hashed`: judged_files(), if the caller has them. The files must outlive the judgement.
/// Throws UsageError, InputError; NotCertified if options.for_length lies outside of the lengths of the prompts.
Judgement judge_results(ResultsFiles files, const JudgementOptions& options, std::span<const TasksFile> tasks = {},
                        std::optional<std::vector<JudgedFile>> hashed = {});

}  // namespace attest
