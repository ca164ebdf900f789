// Makes a folder of figures and tables from results files, and reports what was made and what could not be.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/study_view/experiment.h"

namespace attest {

struct FigureRequest {
  std::vector<std::string> only;                       ///< names of experiments; empty: all
  std::vector<std::string> formats = kDefaultFormats;  ///< some of kFigureFormats
  PageStyle page;
  PoolBy by = PoolBy::model;
  ExperimentOptions options;
  bool replace = false;  ///< replace files of the same names in the folder
  /// Is called with the number of experiments and studies that are done, and of all.
  std::function<void(std::size_t done, std::size_t total)> progress = {};
};

/// What an experiment made of the results. The names of its figures and tables are those of their files.
struct ExperimentMade {
  std::string experiment, paper;
  std::string study;  ///< title of the study, or of several: "A; B"
  ExperimentResult result;
  std::vector<std::string> files = {};  ///< in the folder
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

struct StudyResult {
  std::string study;  ///< title
  ExperimentResult result;
};

/// Whether no figure would have more panels than fit on a page.
bool can_be_facets(const std::vector<StudyResult>& results);

/// One result with a first column `study` in every table. Equal titles in the legend are one entry.
ExperimentResult facets(std::vector<StudyResult> results);

/// Names of all files that a result may have with pictures of these formats.
std::vector<std::string> files_of(const ExperimentResult& result, const std::vector<std::string>& formats);

/// The table and its caption.
std::string table_markdown(const NamedTable& table);

/// Writes NAME.csv, NAME.md and NAME.tex. Throws std::system_error when they cannot be written.
void write_table(const NamedTable& table, const std::filesystem::path& folder);

/// Name of the file with every caption and finding.
inline constexpr const char* kCaptionsFile = "captions.md";

/// The sections of captions about other experiments than these.
std::string sections_of_others(std::string_view captions, const std::vector<std::string>& experiments);

/// Whether the folder has captions about other experiments than this one.
bool has_others(const std::filesystem::path& folder, const std::string& experiment);

/// Whether the folder has captions about this experiment.
bool has_section(const std::filesystem::path& folder, const std::string& experiment);

/// Names of the files that captions name as those of an experiment.
std::vector<std::string> files_of_captions(std::string_view captions, std::string_view experiment);

/// files_of_captions() for the captions of the folder.
std::vector<std::string> captioned_files(const std::filesystem::path& folder, const std::string& experiment);

/// Of figures and tables that stand in the folder. `before`: captions of figures that stay, of which the sections about
/// other experiments are kept.
void write_captions(const std::vector<ExperimentMade>& made, const std::filesystem::path& folder,
                    const std::string& before);

}  // namespace attest
