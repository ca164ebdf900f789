// Whether a study has head weights for its layers, from the dumps or from a file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/study/head_weights.h"
#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"

namespace attest {

/// `weights`: null if there is no file. Throws InputError if they are of another model than a dump, or lack a layer
/// that is studied and has no head gradients. Returns warnings: of weights that are not used, and of layers that leave
/// weighted_error undefined or smaller than the model's.
std::vector<std::string> head_weights_notices(const Study& study, const StudyPlan& plan,
                                              std::span<const DumpReader> dumps, const HeadWeights* weights);

}  // namespace attest
