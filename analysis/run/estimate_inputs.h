// The files that selectors read beside the dumps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/estimate_reader.h"

namespace attest {

/// Each once, in the order of the selectors.
std::vector<std::string> input_files(const Study& study);

/// One reader for each source of estimates, which has all layers of the plan. Throws InputError where it has not,
/// UsageError where two dumps have a sample of one name, which the file cannot tell apart.
std::vector<EstimateReader> open_estimates(const Study& study, const StudyPlan& plan,
                                           std::span<const DumpReader> dumps);

}  // namespace attest
