// A temporary folder is its owner's, and goes with all its content.
#include "dumps/base/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolderTest, IsPrivateUnpredictableAndGoesWithItsContent) {
  const ScratchFolder scratch;
  fs::path path;
  {
    const TemporaryFolder one(scratch.file(".")), other(scratch.file("."));
    path = one.path();
    EXPECT_NE(one.path(), other.path());
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700);
    fs::create_directory(path / "deeper");
    std::ofstream(path / "deeper" / "file") << "text";
  }
  EXPECT_TRUE(scratch.empty());
}

TEST(TemporaryFolderTest, SaysWhereItCannotBeMade) {
  EXPECT_EQ(message_of<OutputError>([] { TemporaryFolder("/no/such"); }),
            "cannot write to the folder /no/such: No such file or directory");
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", "/no/such", 1);
  EXPECT_EQ(message_of<OutputError>([] { system_temporary_folder(); }),
            "there is no folder for temporary files: TMPDIR is '/no/such' (No such file or directory)");
  before != nullptr ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
}

}  // namespace
}  // namespace attest
