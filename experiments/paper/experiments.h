// The paper's tables and figures, one file each. They are made from results files and requested by name.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "experiments/paper/model_study.h"
#include "plots/figure.h"

namespace attest {

/// Result of an experiment for one model.
struct ExperimentResult {
  Figure figure;
  std::vector<std::string> findings;  ///< one sentence each, computed from the data
};

/// Why the results cannot support an experiment: "no selector named ffd in the results".
struct Unsupported {
  std::string reason;
};

struct Experiment {
  std::string name;   ///< on the command line and of the files
  std::string paper;  ///< which table or figure of the paper
  std::string needs;  ///< what the results must hold
  std::variant<ExperimentResult, Unsupported> (*make)(const ModelStudy& study);
};

/// All experiments, in the paper's order. Each is a file of its own and a line in experiments.cpp.
const std::vector<Experiment>& experiments();

/// A label for csv cells and legends: control characters become spaces.
std::string display_name(const std::string& label);

/// A label as (part of) the name of a curve, without characters that gnuplot cannot select by.
std::string curve_name(const std::string& label);

}  // namespace attest
