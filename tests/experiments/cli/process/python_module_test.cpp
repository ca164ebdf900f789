// exec_module: the error for a missing interpreter, and signals.
#include "experiments/cli/process/python_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using testing::StartsWith;

TEST(PythonModule, a_missing_interpreter_is_one_sentence) {
  EXPECT_THAT(message_of<OutputError>([&] { exec_module("/no/such/python", "attest.importing", {}); }),
              StartsWith("/no/such/python: cannot be started (No such file or directory); cmake/setup.sh"));
}

TEST(PythonModule, a_signal_waits_until_the_module_handles_signals) {
  const ScratchFolder folder;
  const std::string interpreter = folder.write("python", "#!/bin/sh\nkill -TERM $$\nexit 7\n");
  std::filesystem::permissions(interpreter, std::filesystem::perms::owner_all);
  const auto blocked_as_in_attest = [&] {  // by end_on_signals()
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    exec_module(interpreter, "attest.importing", {});
  };
  EXPECT_EXIT(blocked_as_in_attest(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace attest
