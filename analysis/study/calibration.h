// Selectors that learn from samples of the dump before they are judged on the others.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/study/study_plan.h"
#include "dumps/dump_reader.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// A selector that learns, while it still may.
struct Learner {
  std::string label;
  std::shared_ptr<Selector> selector;
};

/// `choice` without the samples that selectors learn from. Throws UsageError where one of them is asked for by name, or
/// where there is more than one dump: what is learnt of one model is not to be applied to another.
StudyChoice without_calibration_samples(StudyChoice choice, std::span<const Learner> learners, std::size_t num_dumps);

/// Shows every learner its samples, in each layer that the study has. Throws InputError where a sample holds NaN or
/// Inf.
void calibrate(std::span<const Learner> learners, const DumpReader& dump, const StudyPlan& plan);

}  // namespace attest
