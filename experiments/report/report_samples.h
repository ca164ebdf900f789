// The samples of a study over all results files, in one list: its order is that of MapModel::samples.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/study_view/model_study.h"

namespace attest {

struct ReportSample {
  const ResultsFile* file = nullptr;
  std::size_t dump = 0, sample = 0;  ///< indices in the file
  std::string name;                  ///< for the page; unlike those of the other samples

  const StudyDump& study_dump() const { return file->study().dumps[dump]; }
  const StudySample& study_sample() const { return study_dump().samples[sample]; }

  /// A metric of the selector with that label; empty if the sample has none.
  std::optional<MetricArray> read(std::string_view label, std::string_view metric) const;
};

std::vector<ReportSample> samples_of(const ModelStudy& study);

}  // namespace attest
