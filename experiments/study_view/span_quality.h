// What a selector keeps of the evidence spans of some cells.
#pragma once

#include <string>

#include "analysis/statistics/aggregate.h"
#include "experiments/study_view/model_study.h"

namespace attest {

/// All numbers are NaN if no sample has spans. Those of retrieval cells are NaN if no cell puts kRetrievalMass on its
/// span.
struct SpanQuality {
  double keep = 0;                         ///< part of the span's tokens that is kept, mean over cells
  double retrieval_keep = 0;               ///< the same over the retrieval cells
  double mass_kept = 0;                    ///< sum of the span mass that is kept / sum of the span mass
  double recall_mean = 0, recall_min = 0;  ///< over the retrieval cells
  std::int64_t cells = 0, retrieval_cells = 0;
};

/// The cells of one selector in some layers; reads each metric once.
class SpanCells {
 public:
  SpanCells(const ModelStudy& study, const PooledSelector& selector, const std::set<int>& except);

  bool has_spans() const { return !mass_.empty(); }

  /// The quality at one setting; of samples of `task` alone unless it is empty.
  SpanQuality at(std::size_t setting, const std::string& task = {}) const;

 private:
  std::vector<std::vector<SampleCells>> keep_, mass_kept_, recall_;  ///< [setting]
  std::vector<SampleCells> mass_;
};

/// The samples of `task`; all if it is empty.
std::vector<SampleCells> of_task(const std::vector<SampleCells>& samples, const std::string& task);

}  // namespace attest
