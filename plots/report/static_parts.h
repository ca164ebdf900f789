// The parts of a page that are there without its script: findings, tables, figures, the manifest.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plots/report/report_data.h"

namespace attest {

std::string facts_html(const ReportData& data);
/// The `first` findings, and the others folded.
std::string findings_html(const std::vector<ReportFinding>& findings, std::size_t first);
std::string section_html(const ReportSection& section);
std::string manifests_html(const ReportData& data);

}  // namespace attest
