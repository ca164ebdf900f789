// A study by several ranks: rank 0 hands out the units and writes the results, all compute.
#pragma once

#include <atomic>

#include "analysis/run/run_study.h"
#include "analysis/study/study.h"

namespace attest {

/// run_study() of a process with options.ranks. Throws StoreLost if the store is gone, and in rank 0 the error of the
/// rank that has failed.
RunReport run_ranked_study(Study study, RunOptions options, const std::atomic<bool>& stop,
                           const StudyObserver& observer);

}  // namespace attest
