// Gathers the units of a study into its results file and its summary while the study runs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "analysis/results/layer_results.h"
#include "analysis/results/results_file.h"
#include "analysis/statistics/summary.h"
#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"

namespace attest {

class ResultsAssembly {
 public:
  /// The file is in `folder` until finish() gives it the name `output`. `study` and `plan` must outlive this object.
  /// Throws as ResultsWriter does.
  ResultsAssembly(const Study& study, const StudyPlan& plan, const std::string& output, const std::string& folder,
                  bool with_dense_layers);

  /// Units may come in any order, each once. Not thread-safe.
  void add(const UnitKey& unit, const LayerResults& results);

  bool complete() const { return next_ == plan_.units.size(); }

  /// Of a complete study; the order in which its units came has no influence on any bit of it.
  Summary summary() const { return summary_.finish(); }
  /// The units that --skip-bad-layers left out, in the order of the plan.
  std::vector<UnitKey> left_out() const;

  /// Writes the manifest and gives the file its name.
  void finish(const std::string& manifest) { writer_.finish(manifest); }

 private:
  const Study& study_;
  const StudyPlan& plan_;
  const bool with_dense_layers_;
  ResultsWriter writer_;
  SummaryBuilder summary_;  ///< of the first `next_` units of the plan
  std::size_t next_ = 0;
  std::map<UnitKey, SummaryBuilder> waiting_;  ///< units that came before one of their predecessors
  std::vector<UnitKey> left_out_;
};

}  // namespace attest
