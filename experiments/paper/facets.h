// Puts the figures of several studies into one: a row of panels for each study.
#pragma once

#include <string>
#include <vector>

#include "experiments/paper/experiments.h"

namespace attest {

struct StudyResult {
  std::string study;  ///< title
  ExperimentResult result;
};

/// False if a figure would have more panels than a page.
bool can_be_facets(const std::vector<StudyResult>& results);

/// One result with a first column `study` in every table. Equal titles in the legend are one entry.
ExperimentResult facets(std::vector<StudyResult> results);

}  // namespace attest
