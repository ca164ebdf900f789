// What launchers say in the environment.
#include "analysis/run/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Launch> read(const Variables& variables) {
  return read_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found != variables.end() ? std::optional(found->second) : std::nullopt;
  });
}

std::string refusal(const Variables& variables) {
  return message_of<UsageError>([&] { read(variables); });
}

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  std::erase_if(base, [](const auto& one) { return one.second == "unset"; });
  return base;
}

const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "16"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"TORCHELASTIC_RUN_ID", "job7"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},          {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_NAMESPACE", "prterun-host-1@1"}, {"PMIX_RANK", "3"}};
const Variables kSlurm{{"SLURM_JOB_ID", "4711"},       {"SLURM_STEP_ID", "0"},
                       {"SLURM_PROCID", "9"},          {"SLURM_NTASKS", "12"},
                       {"SLURM_STEP_NUM_TASKS", "12"}, {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "1"},          {"SLURM_STEP_TASKS_PER_NODE", "8,4"}};

TEST(Launch, AProcessByItself) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}})) << "one rank is as good as none";
  EXPECT_FALSE(read({{"RANK", ""}, {"WORLD_SIZE", ""}}));
}

TEST(Launch, Torchrun) {
  const Launch found = read(kTorchrun).value();
  EXPECT_EQ(found.launcher, "torchrun");
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.world, 16);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_world, 4);
}

TEST(Launch, TorchrunGoesBeforeTheLauncherThatStartedIt) {
  EXPECT_EQ(read(with(kSlurm, kTorchrun))->launcher, "torchrun");
  EXPECT_EQ(read(with(kSlurm, kOpenMpi))->launcher, "Open MPI");
  EXPECT_FALSE(read(with(kSlurm, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}))) << "a torchrun of one process on each node";
}

TEST(Launch, OpenMpi) {
  const Launch found = read(kOpenMpi).value();
  EXPECT_EQ(found.launcher, "Open MPI");
  EXPECT_EQ(found.rank, 3);
}

TEST(Launch, Slurm) {
  const Launch found = read(kSlurm).value();
  EXPECT_EQ(found.launcher, "Slurm");
  EXPECT_EQ(found.rank, 9);
  EXPECT_EQ(found.world, 12);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_world, 4) << "of node 1";
}

TEST(Launch, TasksOnANodeOfSlurm) {
  const auto local_world = [](const char* list, int node) {
    return read(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", std::to_string(node)}}))
        ->local_world;
  };
  EXPECT_EQ(local_world("8(x2),4", 0), 8);
  EXPECT_EQ(local_world("8(x2),4", 1), 8);
  EXPECT_EQ(local_world("8(x2),4", 2), 4);
  for (const char* list : {"x", "8(x", "8(x2", "8(x2)4", "-1", "8;4", "8(x2)"})
    EXPECT_THROW(local_world(list, 2), UsageError) << list;
}

TEST(Launch, OutsideOfAStepSlurmsVariablesDescribeNoRanks) {
  EXPECT_FALSE(read(with(kSlurm, {{"SLURM_STEP_ID", "unset"}, {"SLURM_STEP_NUM_TASKS", "unset"}})));
  EXPECT_FALSE(read(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}})))
      << "the step of an interactive shell, in a job of 12 tasks";
}

TEST(Launch, PmixTakesTheSizeFromElsewhere) {
  EXPECT_EQ(read(with(kSlurm, {{"PMIX_RANK", "9"}}))->launcher, "PMIx under Slurm");
  EXPECT_EQ(refusal({{"PMIX_RANK", "1"}}),
            "PMIX_RANK is set, but nothing says how many ranks there are: set RANK, WORLD_SIZE and LOCAL_RANK");
  EXPECT_EQ(read({{"PMIX_RANK", "1"},
                  {"PMI_SIZE", "2"},
                  {"MPI_LOCALRANKID", "1"},
                  {"MPI_LOCALNRANKS", "2"},
                  {"PMIX_NAMESPACE", "x"}})
                ->launcher,
            "PMIx");
}

TEST(Launch, RefusesWhatContradictsItself) {
  EXPECT_EQ(refusal({{"RANK", "1"}}), "RANK is set, but WORLD_SIZE is not");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "2"}}), "WORLD_SIZE is set, but RANK is not");
  EXPECT_EQ(refusal(with(kTorchrun, {{"RANK", "16"}})), "RANK is 16 and WORLD_SIZE is 16, expected a smaller RANK");
  EXPECT_EQ(refusal(with(kTorchrun, {{"LOCAL_RANK", "4"}})),
            "LOCAL_RANK is 4 and LOCAL_WORLD_SIZE is 4, expected a smaller LOCAL_RANK");
  EXPECT_EQ(refusal(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "17"}})),
            "LOCAL_WORLD_SIZE is 17 and WORLD_SIZE is 16, expected no more ranks on a machine than in all");
  EXPECT_EQ(refusal(with(kTorchrun, {{"WORLD_SIZE", "0"}})),
            "WORLD_SIZE is '0', expected a whole number from 1 to 1048576");
  EXPECT_EQ(refusal(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "8"}})),
            "SLURM_STEP_TASKS_PER_NODE is '8', expected a list such as 8(x2),4 with an entry for node 1");
  for (const char* text : {"-1", "1.5", "x", " 1", "0x1", "99999999999999999999"})
    EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", text}})), ::testing::StartsWith("RANK is '")) << text;
}

}  // namespace
}  // namespace attest
