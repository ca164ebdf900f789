// attest bench study --scaling: how the study grows with the tokens and the queries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dumps/synthetic/dump.h"
#include "experiments/bench/study/bench_settings.h"

namespace attest {

/// Numbers from `minimum` up to `maximum`, each four times the one before; the last is `maximum`. If it is below
/// `minimum`, it stands alone.
std::vector<std::int64_t> scaling_steps(std::int64_t minimum, std::int64_t maximum);
inline constexpr std::int64_t kMinScalingTokens = 4096, kMinScalingQueries = 4;

/// The study of a synthetic dump.
struct ScalingRow {
  std::int64_t tokens = 0, queries = 0;
  std::int64_t file_bytes = 0;
  std::vector<double> seconds;   ///< one per repeat
  double gpu_busy_seconds = 0;   ///< the mean of the repeats; 0 on the CPU
  std::int64_t peak_memory = 0;  ///< largest resident bytes of the host during the study, over the repeats
};

/// Times dumps of every length up to that of `dump`, each with every number of queries up to its own, in ascending
/// order. `folder` must exist, and what is written there is removed.
std::vector<ScalingRow> bench_scaling(SyntheticOptions dump, const std::string& folder,
                                      const StudyBenchOptions& options);

}  // namespace attest
