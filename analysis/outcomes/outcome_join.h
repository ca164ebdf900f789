// Joins answers (tasks files) with the cells of the same prompts (results files): by model, prompt, label and setting.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/outcomes/tasks_file.h"
#include "analysis/statistics/sample_cells.h"
#include "analysis/validation/prompt_set.h"

namespace attest {

/// A prompt that was studied and answered through a selector, at the settings that the files have in common.
struct AnsweredPrompt {
  Prompt prompt;  ///< its cells: in all layers of the sample
  std::string model;
  struct Answer {
    std::size_t setting = 0;  ///< of the study's grid
    bool failed = false;      ///< dense attention answers right, the selector does not
  };
  std::vector<Answer> answers;  ///< at least one

  const StudySelector& selector() const { return prompt.file->study().selectors[prompt.selector]; }
};

/// What became of the answers through selectors, each a prompt at a run. Their sum is all of them.
struct JoinCounts {
  std::int64_t joined = 0;
  std::int64_t other_prompt = 0;   ///< the results lack the prompt
  std::int64_t other_setting = 0;  ///< they lack the label or the setting
  std::int64_t other_options = 0;  ///< under the label they have another selector or other options
  std::int64_t left_out = 0;       ///< the study left out layers of the prompt
  std::int64_t not_scored = 0;     ///< dense answer and answer have no kind of score in common
  std::int64_t dense_wrong = 0;    ///< dense attention answers wrong

  std::int64_t dense_wrong_prompts = 0;  ///< prompts of `dense_wrong`
  std::int64_t not_answered = 0;         ///< prompts of the results, by selector and setting, without an answer
  std::array<std::int64_t, kScoreNames.size()> by_score = {};  ///< `joined` by kind of score
};

struct JoinedAnswers {
  std::vector<AnsweredPrompt> prompts;  ///< the files must outlive them
  JoinCounts counts;
};

/// Of an answer counts the first of contains, prefix and exact by which it and the dense answer are scored. Throws
/// InputError if two files have the same prompt, label and setting, or if the files have nothing in common.
JoinedAnswers join_answers(ResultsFiles results, std::span<const TasksFile> tasks);

}  // namespace attest
