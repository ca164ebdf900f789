// Checks every value of a results file against what its metric allows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/results/results_file.h"

namespace attest {

/// All cells of one metric of one selector, over dumps and samples.
struct MetricCheck {
  std::string label;  ///< of the selector; "scores" for the exact scores
  std::string metric;
  std::int64_t cells = 0;          ///< of the layers that were computed
  std::int64_t nan = 0;            ///< of these
  std::int64_t infinite = 0;       ///< of these
  float minimum = 0, maximum = 0;  ///< of the finite ones; NaN if there are none
  std::int64_t bad = 0;            ///< cells that the metric does not allow
  std::string first_bad;           ///< "/dumps/0/samples/s/ffd/recall: [layer 3, ...] is 1.7, expected ..."
};

struct ResultsCheck {
  std::vector<MetricCheck> metrics;  ///< by selector, then by name
  std::int64_t num_bad() const;
};

/// Reads every value. A cell is bad if it is NaN where the metric is always defined, outside its range, or not NaN in a
/// layer that was left out. Metrics that this program does not know may hold anything. `progress` gets the number of
/// arrays read and of all.
ResultsCheck check_results(const ResultsFile& results,
                           const std::function<void(std::size_t done, std::size_t total)>& progress = {});

/// One sentence that names the file and its first bad cell, for an InputError; empty if no cell is bad.
std::string verdict(const ResultsFile& results, const ResultsCheck& check);

}  // namespace attest
