// Reads one prompt from both studies and reduces its cells to one number per row and study.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/compare/comparison_plan.h"

namespace attest {

/// The numbers of one prompt for the rows.
struct PromptDifferences {
  std::vector<double> first, second;  ///< [rows]; NaN where no cell is defined in both
  std::vector<std::uint8_t> equal;    ///< [rows] every cell is the same bit for bit
  /// [Comparison::heads][layers, heads] of the prompt: mean over queries of second - first.
  struct Heads {
    std::vector<int> layers;
    std::size_t heads = 0;
    std::vector<double> mean;
  };
  std::vector<Heads> heads;
  PairedCells cells{};  ///< memory for the next prompt
};

/// Throws InputError if a file cannot be read.
void difference_prompt(const ResultsFile& first, const ResultsFile& second, const Comparison& comparison,
                       const std::vector<CellSeries>& series, const MatchedPrompt& prompt, PromptDifferences& out);

/// Layers of a prompt that one of the studies did not compute for the pair.
std::vector<int> layers_not_done(const ResultsFile& first, const ResultsFile& second, const MatchedPrompt& prompt,
                                 const MatchedSelector& pair);

}  // namespace attest
