// Selectors that learn from samples of the dump before they are judged on the others.
#pragma once

#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"

namespace attest {

/// Leaves the samples that selectors learn from out of study.choice. Throws UsageError where one of them is asked for
/// by name, or where there is more than one dump: what is learnt of one model is not to be applied to another.
void leave_out_calibration_samples(Study& study);

/// Shows every selector that learns its samples, in each layer that the study has. Throws InputError where a sample
/// holds NaN or Inf.
void calibrate(const Study& study, const StudyPlan& plan, const DumpReader& dump);

}  // namespace attest
