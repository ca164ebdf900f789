// Plans a study: determines its units of work from the chosen samples, layers and queries.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "analysis/study/study.h"
#include "dumps/dump_info.h"

namespace attest {

/// Position of a sample of the study in its dump.
struct PlannedSample {
  std::size_t index = 0;                   ///< in DumpInfo::samples
  std::vector<std::size_t> query_indices;  ///< ascending, into the sample's query_positions
};

struct StudyPlan {
  std::vector<std::vector<PlannedSample>> places;  ///< [dump][sample] of Study::dumps
  std::vector<UnitKey> units;                      ///< every unit of work, in the order of the dumps
  std::vector<std::string> notices;  ///< sentences about samples that have less than was chosen, or nothing of it
};

/// Fills study.dumps from `dumps` and study.choice. Samples with none of the chosen layers or queries are left out.
/// Throws UsageError if a named sample is in no dump, a chosen layer or position is in none of the samples, or nothing
/// is left to study.
StudyPlan plan_study(std::span<const DumpInfo* const> dumps, Study& study);

}  // namespace attest
