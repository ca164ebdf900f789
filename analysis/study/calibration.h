// Calibration: some selectors learn from samples of the dump before they are evaluated on the other samples.
#pragma once

#include <atomic>

#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"

namespace attest {

/// Adds the samples that selectors learn from to study.choice.left_out. Throws UsageError if such a sample was chosen
/// by name, or if there is more than one dump, because a calibration must not be applied to another model.
void leave_out_calibration_samples(Study& study);

/// Calibrates every selector that learns, with its samples, in each layer of the plan. Throws InputError if a sample
/// contains NaN or Inf, Interrupted once `stop` is set.
void calibrate(const Study& study, const StudyPlan& plan, const DumpReader& dump,
               const std::atomic<bool>* stop = nullptr);

}  // namespace attest
