// StagedFolder: with and without commit(), and folders that cannot be written.
#include "experiments/study_view/staged_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

class StagedFolderTest : public testing::Test {
 protected:
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string read(const fs::path& path) { return bytes_of_file(path.string()); }
  static std::ptrdiff_t entries(const fs::path& path) {
    return std::distance(fs::directory_iterator(path), fs::directory_iterator());
  }

  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(StagedFolderTest, FilesAppearAtTheEndOverThoseOfTheSameName) {
  write(folder_ / "a", "old");
  write(folder_ / "mine", "mine");
  {
    StagedFolder staged(folder_);
    write(staged.staging() / "b", "new");
    write(staged.staging() / "a", "new");
    EXPECT_EQ(read(folder_ / "a"), "old");
    EXPECT_FALSE(fs::exists(folder_ / "b"));
    EXPECT_EQ(staged.commit(), (std::vector<std::string>{"a", "b"}));
  }
  EXPECT_EQ(read(folder_ / "a"), "new");
  EXPECT_EQ(read(folder_ / "mine"), "mine");
  EXPECT_EQ(entries(folder_), 3) << "nothing of the staging remains";
}

TEST_F(StagedFolderTest, WithoutCommitNothingRemains) {
  const fs::path target = folder_ / "new" / "deeper";
  {
    StagedFolder staged(target);
    write(staged.staging() / "a", "half");
  }
  EXPECT_FALSE(fs::exists(folder_ / "new")) << "parents that were made for it go, too";

  write(folder_ / "a", "old");
  { StagedFolder staged(folder_); }
  EXPECT_EQ(read(folder_ / "a"), "old");
}

TEST_F(StagedFolderTest, MakesParents) {
  const fs::path target = folder_ / "x" / "y";
  StagedFolder staged(target);
  write(staged.staging() / "a", "text");
  staged.commit();
  EXPECT_EQ(read(target / "a"), "text");
}

TEST_F(StagedFolderTest, AFileInTheWayIsAnOutputError) {
  write(folder_ / "file", "");
  EXPECT_THROW(StagedFolder(folder_ / "file"), OutputError);
  EXPECT_THROW(StagedFolder(folder_ / "file" / "below"), OutputError);

  StagedFolder staged(folder_);
  fs::create_directories(folder_ / "a" / "full");
  write(staged.staging() / "a", "text");
  EXPECT_THROW(staged.commit(), OutputError);
}

TEST_F(StagedFolderTest, APipeInTheWayStaysAndNothingIsMoved) {
  StagedFolder staged(folder_);
  ASSERT_EQ(mkfifo((folder_ / "b").c_str(), 0600), 0);
  for (const char* name : {"a", "b"}) write(staged.staging() / name, "text");
  EXPECT_THROW(staged.commit(), OutputError);
  EXPECT_TRUE(fs::is_fifo(folder_ / "b"));
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

}  // namespace
}  // namespace attest
