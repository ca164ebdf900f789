// Which processes count as alive.
#include "dumps/base/process_identity.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace attest {
namespace {

TEST(ProcessIdentity, ThisProcessIsAlive) {
  ProcessIdentity own = ProcessIdentity::of_this_process();
  EXPECT_TRUE(own.on_this_machine());
  EXPECT_TRUE(own.alive());
  own.started = "1";
  EXPECT_FALSE(own.alive()) << "another process has its number by now";
}

TEST(ProcessIdentity, OneThatNobodyHasWaitedForIsDead) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string started = ProcessIdentity::of_this_process().started;
    const bool written = ::write(ends[1], started.data(), started.size()) > 0;
    if (written) ::pause();
    ::_exit(1);
  }
  char started[64] = {};
  ASSERT_GT(::read(ends[0], started, sizeof started - 1), 0);
  ProcessIdentity identity = ProcessIdentity::of_this_process();
  identity.process = child;
  identity.started = started;
  EXPECT_TRUE(identity.alive());
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(identity.alive());
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(identity.alive());
  for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace attest
