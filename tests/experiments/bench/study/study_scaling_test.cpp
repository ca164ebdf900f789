// The rows of attest bench study --scaling.
#include "experiments/bench/study/study_scaling.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using Steps = std::vector<std::int64_t>;

TEST(StudyScaling, GoesUpInStepsOfFour) {
  EXPECT_EQ(scaling_steps(4096, 262144), (Steps{4096, 16384, 65536, 262144}));
  EXPECT_EQ(scaling_steps(4, 64), (Steps{4, 16, 64}));
  EXPECT_EQ(scaling_steps(4096, 40000), (Steps{10000, 40000}));
  EXPECT_EQ(scaling_steps(4, 3), Steps{3});
}

TEST(StudyScaling, TimesEveryLengthWithEveryNumberOfQueries) {
  const ScratchFolder folder;
  StudyBenchOptions options;
  options.threads = 2;
  options.repeats = 2;
  options.selectors = {"exact", "ffd"};
  SyntheticOptions dump;
  dump.shape = {4, 2, 32, 32};
  dump.num_layers = 1;
  dump.num_tokens = 16384;
  dump.num_queries = 16;
  const std::vector<ScalingRow> rows = bench_scaling(dump, folder.file(""), options);
  ASSERT_EQ(rows.size(), 4u);
  std::size_t i = 0;
  for (const std::int64_t tokens : {4096, 16384})
    for (const std::int64_t queries : {4, 16}) {
      const ScalingRow& row = rows[i++];
      EXPECT_EQ(row.tokens, tokens);
      EXPECT_EQ(row.queries, queries);
      EXPECT_EQ(row.seconds.size(), 2u);
      EXPECT_GT(row.file_bytes, tokens * 2 * 2 * 32 * 2);
      EXPECT_GT(row.peak_memory, 0);
      EXPECT_EQ(row.gpu_busy_seconds, 0) << "on the CPU";
    }
  EXPECT_TRUE(folder.empty()) << "nothing is left";
}

}  // namespace
}  // namespace attest
