// What is checked before the first layer of a study is read.
#pragma once

#include <vector>

#include "analysis/run/study_tally.h"
#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"

namespace attest {

/// Refuses layers that, with their results, take more memory than was allowed, before the first of them is studied.
void check_memory(const Study& study, const StudyPlan& plan, const std::vector<DumpReader>& readers);

/// Checks that the selectors support the dumps' head dimensions. Throws UsageError for a selector that the user named;
/// drops a default selector with a notice.
void fit_selectors(Study& study, const std::vector<DumpReader>& readers, const StudyObserver& observer);

}  // namespace attest
