// Makes a folder of figures and tables from results files, and reports what was made and what could not be.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "experiments/study_view/experiment.h"

namespace attest {

struct FigureRequest {
  std::vector<std::string> only;                       ///< names of experiments; empty: all
  std::vector<std::string> formats = kDefaultFormats;  ///< some of kFigureFormats
  PageStyle page;
  ExperimentOptions options;
  bool replace = false;  ///< replace files of the same names in the folder
  /// Is called with the number of experiments and studies that are done, and of all.
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

inline constexpr const char* kRunCommand = "attest run ...";
inline constexpr const char* kKernelCommand = "attest bench kernel";

struct ExperimentSkipped {
  std::string experiment;
  std::string study = {};  ///< empty: there is none
  std::string reason;
  std::string run_options = {};       ///< of `command`, with which the results would support it
  std::string command = kRunCommand;  ///< which makes what the experiment needs

  /// "layer_sparsity (tiny): needs ffd; attest run ... --selector ffd".
  std::string text() const;
};

struct FigureReport {
  std::vector<ExperimentMade> made;
  std::vector<ExperimentSkipped> skipped;
  std::string not_drawn;                 ///< why there are no pictures (gnuplot is not installed); empty if there are
  std::vector<std::string> failed = {};  ///< figures without pictures, because gnuplot failed on them: a sentence each
};

/// The result of an experiment for one study.
struct StudyOutcome {
  std::string study;  ///< title
  std::variant<ExperimentResult, Unsupported> outcome;
};

/// Adds the results of an experiment's studies to `report`: as one result, or several if that would be too many panels.
void add_outcomes(const std::string& experiment, const std::string& paper, std::vector<StudyOutcome> outcomes,
                  const std::string& command, FigureReport& report);

/// Throws InputError if nothing was made.
void refuse_nothing(const FigureReport& report);

/// A text that goes into the folder of figures.
struct TextFile {
  std::string name, text;
};

/// Throws OutputError if `folder` is something else, or one of the files is there and nothing may be replaced. With an
/// empty report it can be called before the work.
void refuse_existing(const FigureReport& report, const std::filesystem::path& folder, const FigureRequest& request,
                     const std::vector<TextFile>& texts = {});

/// Writes what was made, its captions and `texts` into the folder, all together; data and scripts even where no picture
/// can be drawn because gnuplot is not installed, or fails on one. Where files are replaced, pictures of a figure that
/// the folder's captions name go, in formats that are not made now. Throws OutputError, and leaves nothing, when they
/// cannot be written.
void write_figures(FigureReport& report, const std::filesystem::path& folder, const FigureRequest& request,
                   const std::vector<TextFile>& texts = {});

/// Why there are no pictures and how to draw them, a line; empty if there are.
std::string not_drawn_text(const FigureReport& report, const std::string& folder);

/// Throws OutputError if gnuplot failed on a figure.
void refuse_failed(const FigureReport& report, const std::string& folder);

}  // namespace attest
