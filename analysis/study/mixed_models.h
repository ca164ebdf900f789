// Dumps that give one name to models of different shapes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace attest {

/// A sentence for each model name whose dumps differ in layers or heads: means are over all of them as if of one model.
std::vector<std::string> mixed_model_notices(std::span<const StudyDump> dumps);

}  // namespace attest
