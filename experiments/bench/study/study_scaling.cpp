// One dump for each length; fewer queries are the last ones of it.
#include "experiments/bench/study/study_scaling.h"

#include <algorithm>
#include <filesystem>

#include "experiments/bench/study/dump_timing.h"

namespace attest {

std::vector<std::int64_t> scaling_steps(std::int64_t minimum, std::int64_t maximum) {
  std::vector<std::int64_t> steps{maximum};
  while (steps.front() / 4 >= minimum) steps.insert(steps.begin(), steps.front() / 4);
  return steps;
}

std::vector<ScalingRow> bench_scaling(SyntheticOptions dump, const std::string& folder,
                                      const StudyBenchOptions& options) {
  const std::string path = folder + "/dump.h5", partial = folder + "/partial";
  std::vector<ScalingRow> rows;
  for (const std::int64_t tokens : scaling_steps(kMinScalingTokens, dump.num_tokens)) {
    dump.num_tokens = tokens;
    write_synthetic_dump(dump, path, true, options.threads);
    if (rows.empty()) time_study(path, partial, options);  // loads the GPU's code
    for (const std::int64_t queries : scaling_steps(kMinScalingQueries, dump.num_queries)) {
      ScalingRow row;
      row.tokens = tokens;
      row.queries = queries;
      for (int i = 0; i < options.repeats; ++i) {
        const DumpTiming timing = time_study(path, partial, options, queries);
        row.file_bytes = timing.file_bytes;
        row.seconds.push_back(timing.study_seconds);
        row.gpu_busy_seconds += timing.gpu_busy_seconds() / options.repeats;
        row.peak_memory = std::max(row.peak_memory, timing.memory_at_end);
      }
      rows.push_back(std::move(row));
    }
    std::filesystem::remove(path);
  }
  return rows;
}

}  // namespace attest
