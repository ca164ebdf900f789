// The files of figures and tables, and the captions of a folder, which name them by experiment.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/study_view/experiment.h"

namespace attest {

/// Names of all files that a result may have with pictures of these formats.
std::vector<std::string> files_of(const ExperimentResult& result, const std::vector<std::string>& formats);

/// The table and its caption.
std::string table_markdown(const NamedTable& table);

/// Writes NAME.csv, NAME.md and NAME.tex. Throws std::system_error when they cannot be written.
void write_table(const NamedTable& table, const std::filesystem::path& folder);

/// Name of the file with every caption and finding.
inline constexpr const char* kCaptionsFile = "captions.md";

/// The captions of a folder; empty if it has none.
std::string captions_of(const std::filesystem::path& folder);

/// Whether the folder has captions about other experiments than this one.
bool has_others(const std::filesystem::path& folder, const std::string& experiment);

/// Whether the folder has captions about this experiment.
bool has_section(const std::filesystem::path& folder, const std::string& experiment);

/// Names of the files that captions name as those of an experiment.
std::vector<std::string> files_of_captions(std::string_view captions, std::string_view experiment);

/// Of figures and tables that stand in the folder. `before`: captions of figures that stay, of which the sections about
/// other experiments are kept.
void write_captions(const std::vector<ExperimentMade>& made, const std::filesystem::path& folder,
                    const std::string& before);

}  // namespace attest
