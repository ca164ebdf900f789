// Whether results that were read from a file are those of a unit of a study.
#pragma once

#include <cstddef>

#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"

namespace attest {

/// True if `results` name this unit and hold what the study would compute for it: for every selector metrics of the
/// table or its own, each once and of the right size.
bool belongs_to(const LayerResults& results, const UnitKey& unit, const Study& study);

/// Bytes of all values that this unit can have.
std::size_t max_value_bytes(const UnitKey& unit, const Study& study);
/// More bytes than a file of this unit can have.
std::size_t max_unit_bytes(const UnitKey& unit, const Study& study);

}  // namespace attest
