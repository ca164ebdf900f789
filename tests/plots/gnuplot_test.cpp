// run_gnuplot with stubs of gnuplot: arguments, errors and the time limit.
#include "plots/gnuplot.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using Status = GnuplotRun::Status;
using std::chrono::milliseconds;

/// A temporary folder, and a PATH that has a stub of gnuplot or nothing at all.
class GnuplotTest : public testing::Test {
 protected:
  ~GnuplotTest() override { setenv("PATH", path_.c_str(), 1); }
  void install_stub(const std::string& shell_script) {
    const fs::path program = scratch_.write("gnuplot", "#!/bin/sh\n" + shell_script);
    fs::permissions(program, fs::perms::owner_all);
    setenv("PATH", (folder_.string() + ":/usr/bin:/bin").c_str(), 1);
  }

  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
  const std::string path_ = std::getenv("PATH");
};

TEST_F(GnuplotTest, RunsInTheFolderWithoutAShell) {
  install_stub("printf '%s\\n' \"$PWD\" \"$@\" > arguments; echo noise");
  const GnuplotRun run = run_gnuplot(folder_, "a b.gp", "formats = 'pdf; $(touch evil)'");
  EXPECT_EQ(run.status, Status::done) << run.message;
  EXPECT_EQ(bytes_of_file(scratch_.file("arguments")),
            fs::canonical(folder_).string() + "\n--default-settings\n-e\nformats = 'pdf; $(touch evil)'\na b.gp\n");
  EXPECT_FALSE(fs::exists(folder_ / "evil"));
}

TEST_F(GnuplotTest, SaysWhenItIsNotInstalled) {
  setenv("PATH", folder_.c_str(), 1);
  const GnuplotRun run = run_gnuplot(folder_, "x.gp", "");
  EXPECT_EQ(run.status, Status::not_installed);
  EXPECT_EQ(run.message, "gnuplot is not installed");
}

TEST_F(GnuplotTest, AFolderThatIsNotThereIsNoMissingGnuplot) {
  install_stub("exit 0");
  const std::string gone = (folder_ / "gone").string();
  EXPECT_EQ(message_of<std::system_error>([&] { run_gnuplot(gone, "x.gp", ""); }),
            "cannot enter " + gone + ": No such file or directory");
}

TEST_F(GnuplotTest, QuotesTheLineThatItComplainsAbout) {
  install_stub("printf '\\nplot y\\n     ^\\n\"x.gp\" line 7: undefined variable: y\\n\\n' >&2; exit 1");
  const GnuplotRun run = run_gnuplot(folder_, "x.gp", "");
  EXPECT_EQ(run.status, Status::failed);
  EXPECT_EQ(run.message, "gnuplot could not draw x.gp: line 7: undefined variable: y");
}

TEST_F(GnuplotTest, SaysSoWhenItDiesSilently) {
  install_stub("exit 3");
  EXPECT_EQ(run_gnuplot(folder_, "x.gp", "").message, "gnuplot could not draw x.gp: it printed no error");
  install_stub("kill -9 $$");
  EXPECT_EQ(run_gnuplot(folder_, "x.gp", "").message, "gnuplot was ended by signal 9 on x.gp");
}

TEST_F(GnuplotTest, StopsAtTheTimeLimit) {
  install_stub("sleep 30; touch ended");
  const GnuplotRun run = run_gnuplot(folder_, "x.gp", "", milliseconds(200));
  EXPECT_EQ(run.status, Status::failed);
  EXPECT_EQ(run.message, "gnuplot was stopped after 0.2 s on x.gp");
  EXPECT_FALSE(fs::exists(folder_ / "ended"));
}

/// A process may close its errors long before it ends.
TEST_F(GnuplotTest, StopsAtTheTimeLimitWhateverIsStillOpen) {
  install_stub("exec 2>/dev/null; sleep 30; touch ended");
  EXPECT_EQ(run_gnuplot(folder_, "x.gp", "", milliseconds(200)).message, "gnuplot was stopped after 0.2 s on x.gp");
  EXPECT_FALSE(fs::exists(folder_ / "ended"));
}

TEST_F(GnuplotTest, WhatItStartedIsStopped) {
  install_stub("(sleep 3; touch alive) & sleep 30");  // far more than the 0.2 s until it is stopped
  EXPECT_EQ(run_gnuplot(folder_, "x.gp", "", milliseconds(200)).status, Status::failed);
  std::this_thread::sleep_for(milliseconds(3300));
  EXPECT_FALSE(fs::exists(folder_ / "alive"));
}

TEST_F(GnuplotTest, AFloodOfComplaintsBlocksNothing) {
  install_stub("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 0");
  EXPECT_EQ(run_gnuplot(folder_, "x.gp", "", milliseconds(20000)).status, Status::done);
}

}  // namespace
}  // namespace attest
