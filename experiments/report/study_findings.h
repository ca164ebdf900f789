// What the numbers of a study say in words, and the table of its selectors at the settings that their papers use.
#pragma once

#include "experiments/paper/model_study.h"
#include "plots/report/report_data.h"

namespace attest {

/// What was studied: a sentence for one model.
std::string studied(ResultsFiles files, const ModelStudy& study);

/// Adds findings about model `data.models[model]` and each of its selectors, and rows to the table of `data.overview`,
/// which is made with the first. add_map() and add_worst_cells() come before.
void add_study_findings(const ModelStudy& study, std::size_t model, ReportData& data);

/// How findings get their severity.
extern const char* const kSeverityNote;

}  // namespace attest
