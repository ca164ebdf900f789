// Makes a folder of figures from results files, and reports what was made and what could not be.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/paper/experiments.h"

namespace attest {

struct FigureRequest {
  std::vector<std::string> only;                      ///< names of experiments(); empty: all
  std::vector<std::string> formats = kFigureFormats;  ///< some of them
  bool replace = false;                               ///< replace files of the same names in the folder
};

struct FigureMade {
  std::string experiment, paper, model;
  std::string name;                ///< of the files; it contains the model's name if there are several models
  std::vector<std::string> files;  ///< in the folder
  std::vector<std::string> findings;
};

struct FigureSkipped {
  std::string experiment, model, reason;
};

struct FigureReport {
  std::vector<FigureMade> made;
  std::vector<FigureSkipped> skipped;
  std::string not_drawn;            ///< why there are no pictures (gnuplot is not installed); empty if there are
  std::vector<std::string> errors;  ///< a sentence for each figure that gnuplot could not draw
};

/// Makes every figure that the results support. Data and scripts are written even where no picture can be drawn.
/// Throws InputError when the results support none, OutputError when a file is there already or cannot be written.
FigureReport make_figures(ResultsFiles files, const std::filesystem::path& folder, const FigureRequest& request);

}  // namespace attest
