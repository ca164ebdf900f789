// Slurm's lists of nodes and tasks.
#include "analysis/ranks/slurm_nodes.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(SlurmNodes, TheFirstOfAList) {
  EXPECT_EQ(first_slurm_node("n[01-03,7],m2"), "n01");
  EXPECT_EQ(first_slurm_node("m2,n[01-03]"), "m2");
  EXPECT_EQ(first_slurm_node("rack[2,4]-n[11-12]"), "rack2-n11");
  EXPECT_EQ(first_slurm_node("n7-gpu"), "n7-gpu");
  EXPECT_EQ(first_slurm_node("n[007]"), "n007");
  for (const char* list : {"", ",n1", "n[01", "n[]", "n]1"}) EXPECT_EQ(first_slurm_node(list), "") << list;
}

TEST(SlurmNodes, TasksOnANode) {
  EXPECT_EQ(slurm_tasks_on_node("8(x2),4", 0), 8);
  EXPECT_EQ(slurm_tasks_on_node("8(x2),4", 1), 8);
  EXPECT_EQ(slurm_tasks_on_node("8(x2),4", 2), 4);
  EXPECT_EQ(slurm_tasks_on_node("8(x2),4", 3), std::nullopt);
  EXPECT_EQ(slurm_tasks_on_node("1", 0), 1);
  for (const char* list : {"", "x", "8(x", "8(x2", "8(x2)4", "-1", "8;4"})
    EXPECT_EQ(slurm_tasks_on_node(list, 2), std::nullopt) << list;
}

}  // namespace
}  // namespace attest
