// GPUs and threads of ranks.
#include "experiments/cli/process/rank_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

const VisibleGpus kFour{.gpus = std::vector<Gpu>(4, Gpu{"H200", 9, 0})};

Launch local(int rank, int world, const std::string& launcher = "torchrun") {
  return {.launcher = launcher, .rank = rank, .world = 2 * world, .local_rank = rank, .local_world = world};
}

TEST(RankSetup, TheLocalRankChoosesTheGpu) {
  for (const char* typed : {"auto", "cuda"})
    for (int rank = 0; rank < 4; ++rank) {
      const Device device = rank_device(typed, {}, local(rank, 4), kFour);
      EXPECT_EQ(device.gpus, (std::vector<int>{rank}));
      EXPECT_EQ(device.notice, "");
      EXPECT_DOUBLE_EQ(device.memory.share, 0.8);
    }
  EXPECT_EQ(rank_device("auto", {}, local(1, 4), {.gpus = {{"P100", 6, 0}, {"H200", 9, 0}, {"H200", 9, 0}}}).gpus,
            (std::vector<int>{2}))
      << "among those that are usable";
  EXPECT_EQ(rank_device("auto", {}, local(1, 4), {}).kind, DeviceKind::cpu);
  EXPECT_EQ(rank_device("cuda:3", {}, local(0, 1), kFour).gpus, (std::vector<int>{3}));
  EXPECT_EQ(rank_device("cuda:all", {}, local(0, 1), kFour).gpus.size(), 4u) << "one rank on each machine";
}

TEST(RankSetup, MoreRanksThanGpusShareThemAndTheirMemory) {
  const Device device = rank_device("auto", {}, local(5, 8), kFour);
  EXPECT_EQ(device.gpus, (std::vector<int>{1}));
  EXPECT_DOUBLE_EQ(device.memory.share, 0.4);
  EXPECT_THAT(device.notice, ::testing::HasSubstr("8 ranks on '"));
  EXPECT_THAT(device.notice, ::testing::EndsWith("share 4 GPUs"));
  EXPECT_EQ(rank_device("cuda", {.share = 0, .bytes = 1000}, local(5, 8), kFour).memory.bytes, 500u);
  const Device bound = rank_device("auto", {}, local(3, 8, "Slurm"), {.gpus = {kFour.gpus[0]}});
  EXPECT_EQ(bound.gpus, (std::vector<int>{0}));
  EXPECT_DOUBLE_EQ(bound.memory.share, 0.8) << "Slurm shows each rank its own";
}

TEST(RankSetup, RefusesAllGpusForEachOfSeveralRanks) {
  EXPECT_THAT(message_of<UsageError>([] { rank_device("cuda:all", {}, local(0, 4), kFour); }),
              ::testing::AllOf(::testing::StartsWith("--device cuda:all: each of the 4 ranks on '"),
                               ::testing::EndsWith("would take all of these GPUs; without --device each takes one")));
}

TEST(RankSetup, ThreadsAreDividedOnce) {
  EXPECT_EQ(rank_threads(local(0, 8), 128, 128), 16);
  EXPECT_EQ(rank_threads(local(0, 8), 4, 4), 1);
  EXPECT_EQ(rank_threads(local(0, 8), 16, 128), 2) << "torchrun binds nothing: the container has 16";
  EXPECT_EQ(rank_threads(local(0, 8, "Slurm"), 16, 128), 16) << "Slurm has bound it";
  EXPECT_EQ(rank_threads(local(0, 8, "Slurm"), 128, 128), 16);
  EXPECT_EQ(rank_threads(local(0, 2, "Open MPI"), 1, 64), 1);
}

}  // namespace
}  // namespace attest
