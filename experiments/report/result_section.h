// What an experiment or a verdict gives, as a section of a report.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/report/report_data.h"
#include "experiments/study_view/experiment.h"

namespace attest {

/// Where figures are drawn, and what a report says of drawing them.
struct ReportDrawing {
  std::filesystem::path folder;         ///< may be left full of files
  std::vector<std::string> notes = {};  ///< each once
  bool no_gnuplot = false;

  void note(const std::string& sentence);
};

/// Draws the figures. `several`: the report has several models, and links say which.
PageSection result_section(const ExperimentMade& made, std::string id, bool several, ReportDrawing& drawing);

}  // namespace attest
