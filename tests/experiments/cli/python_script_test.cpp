// exec_script: errors for a missing interpreter or script.
#include "experiments/cli/python_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "dumps/base/error.h"
#include "experiments/cli/version.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using testing::StartsWith;

std::string refusal(const std::string& interpreter, const std::string& script) {
  return message_of<OutputError>([&] { exec_script(interpreter, script, {}); });
}

TEST(PythonScript, what_is_missing_is_one_sentence) {
  EXPECT_THAT(refusal("/no/such/python", "dumps/import/import_arrays.py"),
              StartsWith("/no/such/python: cannot be started (No such file or directory); cmake/setup.sh"));
  EXPECT_EQ(refusal(python_interpreter(), "dumps/import/absent.py"),
            source_dir() + "/dumps/import/absent.py: cannot be run (No such file or directory)");
}

TEST(PythonScript, a_signal_waits_until_the_script_handles_signals) {
  const ScratchFolder folder;
  const std::string interpreter = folder.write("python", "#!/bin/sh\nkill -TERM $$\nexit 7\n");
  std::filesystem::permissions(interpreter, std::filesystem::perms::owner_all);
  const auto blocked_as_in_attest = [&] {  // by end_on_signals()
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    exec_script(interpreter, "dumps/import/import_arrays.py", {});
  };
  EXPECT_EXIT(blocked_as_in_attest(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace attest
