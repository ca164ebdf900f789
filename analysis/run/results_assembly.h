// Gathers the units of a study into its summary, and in one of its processes into the results file, while it runs.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
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
  /// `study` and `plan` must outlive this object.
  ResultsAssembly(const Study& study, const StudyPlan& plan, bool with_dense_layers);

  /// Units that are added from now on go to a results file, which is in `folder` until finish() gives it the name
  /// `output`. Throws as ResultsWriter does.
  void write_to(const std::string& output, const std::string& folder) { writer_.emplace(output, study_, folder); }

  /// Units may come in any order, each once, from several threads: most of the work is done at the same time.
  void add(const UnitKey& unit, const LayerResults& results);
  /// To the file alone: a unit that was added before write_to().
  void write(const LayerResults& results) { writer_.value().add(results); }

  bool complete() const;

  /// Of a complete study; the order in which its units came has no influence on any bit of it.
  Summary summary() const { return summary_.finish(); }
  /// The units that --skip-bad-layers left out, in the order of the plan.
  std::vector<UnitKey> left_out() const;

  /// Writes the manifest and gives the file its name. Only after write_to().
  void finish(const std::string& manifest) { writer_.value().finish(manifest); }

 private:
  const Study& study_;
  const StudyPlan& plan_;
  const bool with_dense_layers_;
  std::optional<ResultsWriter> writer_;
  mutable std::mutex mutex_;  ///< of the members below
  SummaryBuilder summary_;    ///< of the first `next_` units of the plan
  std::size_t next_ = 0;
  std::map<UnitKey, SummaryBuilder> waiting_;  ///< units that came before one of their predecessors
  std::vector<UnitKey> left_out_;
};

}  // namespace attest
