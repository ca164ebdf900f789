// The cells that each selector reproduces worst, at the settings that the methods' papers use.
#pragma once

#include <cstddef>

#include "experiments/report/report_data.h"
#include "experiments/study_view/model_study.h"

namespace attest {

struct WorstCellOptions {
  std::size_t maximum = 100;  ///< cells of a selector by each of recall, LSE error and dropped mass
  bool tokens = true;         ///< token ids around the query, from the dumps that are still there
};

/// Adds the worst cells of model `data.models[model]`, which add_map() has made, and says in `data.cells_note` what
/// they are. A dump that cannot be read costs the token ids, nothing else.
void add_worst_cells(const ModelStudy& study, std::size_t model, const WorstCellOptions& options, int threads,
                     ReportData& data);

}  // namespace attest
