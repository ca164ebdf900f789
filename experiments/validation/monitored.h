// What later prompts say about a recommendation: the tests of `attest monitor`, as text and JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/validation/monitoring.h"
#include "analysis/validation/prompt_set.h"
#include "dumps/base/json.h"
#include "experiments/validation/recommended.h"

namespace attest {

struct Monitored {
  Recommended recommended;
  PromptSet set;
  std::vector<std::size_t> order;  ///< of the prompts, in which they are tested
  Monitoring monitoring;
};

/// Tests the prompts of `files`, which must outlive the result. Throws UsageError if the files are of another model, of
/// a model of another shape, or hold prompts that certified; InputError if no prompt has a number for a target.
Monitored monitored(const Recommended& recommended, ResultsFiles files, int threads);

/// Files and dumps keep the order in which they were given. A dump holds its prompts by name, which sorts them by task
/// and length, and a test that met the hardest task first would see a change. So the prompts of one dump are shuffled.
std::vector<std::size_t> testing_order(const PromptSet& set, ResultsFiles files, std::uint64_t seed);

/// Sentences on how the prompts differ from those that certified, whatever their numbers.
std::vector<std::string> differences(const Recommended& recommended, const PromptSet& set);

std::string text_of(const Monitored& found);
Json json_of(const Monitored& found);

}  // namespace attest
