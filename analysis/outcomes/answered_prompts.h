// Answers of models as something to validate: a prompt misses the target if the answer is wrong where dense attention
// answers right.
#pragma once

#include <span>

#include "analysis/outcomes/tasks_file.h"
#include "analysis/validation/prompt_set.h"

namespace attest {

/// The prompts of answers alone, without cells: the settings are the runs of one label. Throws UsageError if the scope
/// names what is not there, the files differ in the label's runs, or two of them answer one prompt.
PromptSet gather_answers(std::span<const TasksFile> tasks, const PromptScope& scope);

/// Gives the prompts of `set` their answers, by model, prompt, label, options and setting. Throws what join_answers()
/// throws; InputError if none of them is of the set's selector.
void add_answers(ResultsFiles results, std::span<const TasksFile> tasks, PromptSet& set);

}  // namespace attest
