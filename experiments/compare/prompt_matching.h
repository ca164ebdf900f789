// Finds the prompts (samples) that two studies have in common, and refuses those whose cells are not of the same
// places.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "analysis/results/results_file.h"
#include "analysis/statistics/paired_cells.h"

namespace attest {

/// Where a sample is in a results file.
struct SamplePlace {
  std::size_t dump = 0, sample = 0;
};

struct MatchedPrompt {
  std::string name;  ///< of the sample
  SamplePlace first, second;
  std::vector<int> layers;             ///< chosen ones that both have, ascending
  std::vector<IndexPair> layer_index;  ///< [layers] into StudySample::layers
};

struct MatchedPrompts {
  std::vector<MatchedPrompt> prompts;                ///< in the order of the first file
  std::vector<std::string> only_first, only_second;  ///< names of those that the other file lacks
  std::size_t by_name = 0;                           ///< prompts of dumps whose content hashes differ or are not known
};

/// Samples are the same if their names are, and the content hashes of their dumps; a sample without such a partner has
/// the one of its name. `layers`: inclusive ranges; empty for all. Throws InputError if no prompt is common, or the
/// models, heads, lengths, layers or query positions differ, or a file has a prompt twice; UsageError if no prompt has
/// one of `layers`.
MatchedPrompts match_prompts(const ResultsFile& first, const ResultsFile& second,
                             const std::vector<std::pair<int, int>>& layers = {});

}  // namespace attest
