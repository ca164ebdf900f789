// The files that selectors read in addition to the dumps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/estimate_reader.h"

namespace attest {

/// The selectors' input files, each once, in the order of the selectors.
std::vector<std::string> input_files(const Study& study);

/// One reader for each source of estimates. Throws InputError if a source lacks a layer of the plan or a layer takes
/// more than `allowed_memory` (0: what memory_bound.h allows freely); UsageError if two dumps have samples of the same
/// name, because the file identifies samples by name only.
std::vector<EstimateReader> open_estimates(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps,
                                           std::uint64_t allowed_memory);

}  // namespace attest
