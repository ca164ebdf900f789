// Reader of tasks files: what a model answered, prompt by prompt, densely and through selectors (format "attest-tasks",
// version 1). This header does not need HDF5.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/setting.h"

namespace attest {

struct TaskPrompt {
  std::string name;  ///< of the sample in dumps and results
  std::string task;
  std::int64_t num_tokens = 0;
};

/// One way to answer all prompts: a selector at a setting. Run 0 is dense.
struct TaskRun {
  std::string label, selector;
  std::string options_json;  ///< options that were given; the others have their defaults
  SettingKind kind = SettingKind::none;
  Setting setting;
  std::string typed;  ///< the setting as the user wrote it

  /// Attention is exact: nothing that a selector could make worse.
  bool is_dense() const { return selector == "exact"; }
};

enum class Score : std::uint8_t { wrong = 0, right = 1, not_scored = 2 };

/// The ways in which answers are scored, the one that counts first if it is there.
enum class ScoreKind : std::uint8_t { contains, prefix, exact };
inline constexpr std::array<std::string_view, 3> kScoreNames = {"contains", "prefix", "exact"};

struct TasksFile {
  std::string path, model;
  std::vector<TaskPrompt> prompts;                            ///< [P], names differ
  std::vector<TaskRun> runs;                                  ///< [R], labels or settings differ; run 0 is dense
  std::array<std::vector<Score>, kScoreNames.size()> scores;  ///< [ScoreKind][P * R], row-major
  std::vector<double> kept_ratio;                             ///< [P * R], 0 to 1

  Score score(ScoreKind kind, std::size_t prompt, std::size_t run) const {
    return scores[static_cast<std::size_t>(kind)][prompt * runs.size() + run];
  }
};

/// The first kind by which the dense answer and the run's are both scored.
std::optional<ScoreKind> shared_score(const TasksFile& file, std::size_t prompt, std::size_t run);

/// Most answers of a file, prompts times runs.
inline constexpr std::int64_t kMaxAnswers = 4'000'000;

/// Files are untrusted: HDF5 runs in a guarded child process. Throws InputError of one sentence.
TasksFile read_tasks_file(const std::string& path);

/// Whether it is an HDF5 file that says that it is a tasks file. False for what cannot be read.
bool is_tasks_file(const std::string& path);

}  // namespace attest
