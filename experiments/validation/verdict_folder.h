// The folder of `attest validate --details`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/study_view/figure_run.h"
#include "experiments/validation/judgement.h"

namespace attest {

struct VerdictFolder {
  std::filesystem::path path;
  std::vector<std::string> formats = kDefaultFormats;  ///< of pictures
  bool replace = false;
};

/// Whether a file of this name may be one of those that are written there.
bool is_verdict_file(const std::filesystem::path& name);

/// Refuses, before the work, what write_verdict_folder() would. Throws OutputError.
void check_verdict_folder(const VerdictFolder& folder);

/// verdict.json, verdict.md, offenders.csv, tables, figures and captions.md, all together. Without gnuplot everything
/// but pictures, and the report says so. Throws OutputError.
FigureReport write_verdict_folder(const Judgement& judgement, const VerdictFolder& folder);

}  // namespace attest
