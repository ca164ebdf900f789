// A results table as text for terminals, csv, Markdown, LaTeX and JSON.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/results_table.h"

namespace attest {

inline const std::vector<std::string> kTableFormats = {"text", "csv", "md", "latex", "json"};

/// `format` is one of kTableFormats. `with_model`: text, Markdown and LaTeX have a column of models even if there is
/// only one; csv and JSON always have it.
std::string formatted_table(const ResultsTable& table, const std::string& format, bool with_model);

/// What was left out or cannot be read from the numbers, in sentences; may be empty.
std::string table_notes(const ResultsTable& table);

}  // namespace attest
