// What rank 0 tells the other ranks about their work.
#pragma once

#include <string>
#include <vector>

#include "analysis/study/study.h"
#include "analysis/study/study_plan.h"

namespace attest {

struct RankDescription {
  std::string configuration;  ///< configuration_json()
  bool skip_bad_layers = false;
  bool send_results = false;
  std::string token;           ///< of the FolderSession
  std::vector<UnitKey> units;  ///< to compute, in the order of the plan

  std::string text(const StudyPlan& plan) const;
};

/// Throws UsageError, naming the first difference, if rank 0 was started with another study than this rank.
RankDescription read_description(const std::string& text, const StudyPlan& plan, const std::string& configuration,
                                 bool skip_bad_layers, int rank);

}  // namespace attest
