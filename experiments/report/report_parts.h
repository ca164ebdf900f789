// The functions that fill a report: the map of layers and heads, findings, verdicts.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/report_data.h"
#include "experiments/report/report_samples.h"
#include "experiments/report/result_section.h"
#include "experiments/study_view/model_study.h"
#include "experiments/validation/judge_results.h"

namespace attest {

/// Adds the model to `data`, with its metrics and its arrays: over all samples and, where these are few enough, of each
/// sample.
void add_map(const ModelStudy& study, ReportData& data);

/// The setting with which a page begins: one that the methods' papers use if there is one, else the middle of the grid.
int usual_setting(const MapSelector& selector);

/// Adds findings about model `data.models[model]` and each of its selectors, and rows to the table of `data.overview`,
/// which is made with the first. add_map() and add_worst_cells() come before.
void add_study_findings(const ModelStudy& study, std::size_t model, ReportData& data);

/// Judges each selector of the studies that has settings as `options` say, and adds a section for each, and its verdict
/// to the findings. What cannot be judged is a sentence in its section. Throws UsageError if the options make no sense
/// for any results.
void add_validation_sections(ResultsFiles files, const std::vector<ModelStudy>& studies,
                             const JudgementOptions& options, ReportDrawing& drawing, ReportData& data);

}  // namespace attest
