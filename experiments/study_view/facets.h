// Joins the figures and tables of several studies into rows of panels, and into tables with a column of studies.
#pragma once

#include <string>
#include <vector>

#include "experiments/study_view/experiment.h"

namespace attest {

struct StudyResult {
  std::string study;  ///< title
  ExperimentResult result;
};

/// Whether no figure would have more panels than fit on a page.
bool can_be_facets(const std::vector<StudyResult>& results);

/// One result with a first column `study` in every table. Equal titles in the legend are one entry.
ExperimentResult facets(std::vector<StudyResult> results);

}  // namespace attest
