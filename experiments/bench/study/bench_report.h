// What attest bench study prints: text for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "dumps/base/json.h"
#include "experiments/bench/study/study_bench.h"
#include "experiments/bench/study/study_scaling.h"

namespace attest {

std::string text_of(const StudyBenchReport& report);
Json json_of(const StudyBenchReport& report);

/// `layers`: of the dumps.
std::string text_of(const std::vector<ScalingRow>& rows, int layers);
Json json_of(const std::vector<ScalingRow>& rows);

}  // namespace attest
