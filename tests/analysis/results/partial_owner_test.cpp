// One process owns a folder; the dead on this machine are replaced, and others are named.
#include "analysis/results/partial_owner.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

class PartialOwnerTest : public testing::Test {
 protected:
  std::string refusal() const {
    return message_of<OutputError>([&] { PartialOwner owner(path_); });
  }

  ScratchFolder folder_;
  std::string path_ = folder_.file(".");
};

TEST_F(PartialOwnerTest, IsOneAndLeavesNothing) {
  {
    const PartialOwner owner(path_);
    EXPECT_TRUE(PartialOwner::is_this_process(path_));
    EXPECT_EQ(refusal(), "'" + path_ + "' belongs to process " + std::to_string(::getpid()) +
                             ", which is running, and its file system has no locks, so one process at a time can work "
                             "on the study");
  }
  EXPECT_TRUE(folder_.empty());
  EXPECT_FALSE(PartialOwner::is_this_process(path_));
}

TEST_F(PartialOwnerTest, ReplacesTheDead) {
  const pid_t child = ::fork();
  if (child == 0) {
    const PartialOwner owner(path_);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(std::filesystem::exists(folder_.file("owner-1")));
  const PartialOwner owner(path_);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("owner-2")));
  EXPECT_NE(refusal(), "");
  PartialOwner::remove_files(path_);
  EXPECT_TRUE(folder_.empty());
  const PartialOwner next(path_);  // the end of `owner` must leave it
  EXPECT_TRUE(PartialOwner::is_this_process(path_));
}

TEST_F(PartialOwnerTest, ManyProcessesAgreeOnOne) {
  constexpr int kProcesses = 16;
  int go[2], won[2];
  ASSERT_EQ(::pipe(go), 0);
  ASSERT_EQ(::pipe(won), 0);
  folder_.write("owner-1", "");
  std::filesystem::remove(folder_.file("owner-1"));
  pid_t children[kProcesses];
  for (pid_t& child : children) {
    child = ::fork();
    if (child != 0) continue;
    ::close(go[1]);
    char c = 0;
    [[maybe_unused]] auto n = ::read(go[0], &c, 1);  // until the parent closes it
    try {
      const PartialOwner owner(path_);
      n = ::write(won[1], "w", 1);
      ::usleep(300'000);
    } catch (const OutputError&) {
    }
    ::_exit(0);
  }
  ::close(go[1]);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  ::close(won[1]);
  char text[kProcesses];
  EXPECT_EQ(::read(won[0], text, sizeof text), 1);
}

TEST_F(PartialOwnerTest, NamesThoseOfOtherMachines) {
  folder_.write("owner-3", R"({"host": "other\u001b", "machine": "x", "process": 7, "started": "1"})");
  EXPECT_EQ(refusal(), "'" + path_ +
                           "' belongs to process 7 on 'other\\x1b', and its file system has no locks, so one process "
                           "at a time can work on the study; if that process has ended, remove '" +
                           path_ + "/owner-3'");
  for (const char* damaged : {"{", "{}", "[]", R"({"machine": 3, "process": "a"})"}) {
    folder_.write("owner-3", damaged);
    EXPECT_EQ(refusal(), "'" + path_ + "/owner-3' is damaged; if no process uses '" + path_ + "', remove it");
  }
  EXPECT_FALSE(PartialOwner::is_file_name("owner-") || PartialOwner::is_file_name("owner-0") ||
               PartialOwner::is_file_name("owner-x") || PartialOwner::is_file_name("owner--1"));
}

}  // namespace
}  // namespace attest
