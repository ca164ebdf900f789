// An experiment: a table or figure of the paper, made from the results of a study, and what it says of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "experiments/study_view/model_study.h"
#include "experiments/study_view/scan_bound_study.h"
#include "plots/figure.h"
#include "plots/page/page.h"
#include "plots/table.h"

namespace attest {

struct ExperimentOptions {
  /// `threads`: at least 1.
  explicit ExperimentOptions(int threads = 1) : threads(threads) {}

  int threads;               ///< for what is computed again from dumps, or estimated by bootstraps
  bool linear_axes = false;  ///< quality on linear axes instead of log10(1 - quality)
  /// Copies of the options share them, as do other parts of the program that need them.
  std::shared_ptr<ScanBounds> scan_bounds = std::make_shared<ScanBounds>(threads);
};

/// A view of the report's map of heads.
struct MapPlace {
  std::string metric, selector, setting;
  std::string statistic = {};  ///< "worst"; empty: the page's own
  std::optional<int> layer = {}, head = {};
};

/// A sentence that the data say.
struct Finding {
  std::string text;
  Severity severity = Severity::note;
  std::string number = {};             ///< the number that it is about, as printed: "99.2 %"
  std::optional<MapPlace> place = {};  ///< where the report shows it
  std::string study = {};              ///< title of the study, where a result has several (facets())
};

/// A table of the paper, written as csv, Markdown and LaTeX.
struct NamedTable {
  std::string name;
  std::string caption;
  Table data;
};

/// Result of an experiment for one study. Names of figures and tables begin with the experiment's.
struct ExperimentResult {
  std::vector<Figure> figures = {};
  std::vector<NamedTable> tables = {};
  std::vector<Finding> findings = {};
};

/// What an experiment made of the results. The names of its figures and tables are those of their files.
struct ExperimentMade {
  std::string experiment, paper;
  std::string study;  ///< title of the study, or of several: "A; B"
  ExperimentResult result;
  std::vector<std::string> files = {};  ///< in the folder
};

/// Why the results cannot support an experiment, and which options of `attest run` would: "--selector ffd --delta 5,7".
struct Unsupported {
  std::string reason;
  std::string run_options = {};
};

/// What `attest list` says of an experiment.
struct ExperimentInfo {
  std::string name;   ///< on the command line and of the files
  std::string paper;  ///< which table or figure of the paper
  std::string needs;  ///< what the inputs must hold
};

/// An experiment that is made from results.
struct Experiment {
  std::string name, paper, needs;
  std::variant<ExperimentResult, Unsupported> (*make)(const ModelStudy& study, const ExperimentOptions& options);
};

}  // namespace attest
