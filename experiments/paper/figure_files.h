// The files of figures and tables in their folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/paper/figure_run.h"

namespace attest {

/// Names of all files that a result may have with pictures of these formats.
std::vector<std::string> files_of(const ExperimentResult& result, const std::vector<std::string>& formats);

/// Writes NAME.csv, NAME.md and NAME.tex. Throws std::system_error when they cannot be written.
void write_table(const NamedTable& table, const std::filesystem::path& folder);

/// Name of the file with every caption and finding.
inline constexpr const char* kCaptionsFile = "captions.md";
/// `before`: captions of figures that stay, of which the sections about other experiments are kept.
void write_captions(const std::vector<ExperimentMade>& made, const std::filesystem::path& folder,
                    const std::string& before);

}  // namespace attest
