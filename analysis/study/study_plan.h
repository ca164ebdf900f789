// Which samples, layers and queries of which dumps a study takes: everything that is known before it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/results/partial_results.h"
#include "analysis/results/study_results.h"
#include "dumps/dump_info.h"

namespace attest {

/// The queries of each sample: all of them, its last ones, or those at given positions.
struct QueryChoice {
  enum class Kind : std::uint8_t { all, last, positions };
  Kind kind = Kind::all;
  std::int64_t last = 0;
  std::vector<std::int64_t> positions;
};

struct StudyChoice {
  std::vector<std::string> samples;         ///< names; empty: all
  std::vector<std::string> left_out;        ///< names of samples that are not studied
  std::vector<std::pair<int, int>> layers;  ///< inclusive ranges of layer numbers; empty: all
  QueryChoice queries;
};

/// Where a sample of the study lies in its dump.
struct PlannedSample {
  std::size_t index = 0;                   ///< in DumpInfo::samples
  std::vector<std::size_t> query_indices;  ///< ascending, into the sample's query_positions
};

struct StudyPlan {
  std::vector<StudyDump> dumps;                    ///< as StudyDescription has them
  std::vector<std::vector<PlannedSample>> places;  ///< [dump][sample]
  std::vector<UnitKey> units;                      ///< every unit of work, in the order of the dumps' content
};

/// Samples that have none of the chosen layers are left out too. Throws UsageError when a named sample is in no dump, a
/// chosen position is in none of the samples, or nothing is left.
StudyPlan plan_study(std::span<const DumpInfo* const> dumps, const StudyChoice& choice);

}  // namespace attest
