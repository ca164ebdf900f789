// Verdicts on targets as sections of a report.
#pragma once

#include <string>

#include "experiments/paper/model_study.h"
#include "experiments/report/result_section.h"
#include "experiments/validation/judge_results.h"

namespace attest {

/// Judges each selector of the studies that has settings as `options` say, and adds a section for each, and its verdict
/// to the findings. What cannot be judged is a sentence in its section. Throws UsageError if the options make no sense
/// for any results.
void add_validation_sections(ResultsFiles files, const std::vector<ModelStudy>& studies,
                             const JudgementOptions& options, ReportDrawing& drawing, ReportData& data);

}  // namespace attest
