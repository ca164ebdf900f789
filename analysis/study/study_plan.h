// From the choice of a study to its units of work: everything that is known before it runs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/study/study.h"
#include "dumps/dump_info.h"

namespace attest {

/// Where a sample of the study lies in its dump.
struct PlannedSample {
  std::size_t index = 0;                   ///< in DumpInfo::samples
  std::vector<std::size_t> query_indices;  ///< ascending, into the sample's query_positions
};

struct StudyPlan {
  std::vector<std::vector<PlannedSample>> places;  ///< [dump][sample] of Study::dumps
  std::vector<UnitKey> units;                      ///< every unit of work, in the order of the dumps' content
};

/// Fills study.dumps from `dumps` and the study's choice. Samples that have none of the chosen layers are left out.
/// Throws UsageError when a named sample is in no dump, a chosen position is in none of the samples, or nothing is
/// left.
StudyPlan plan_study(std::span<const DumpInfo* const> dumps, Study& study);

}  // namespace attest
