// What may be replaced, and the space that a file needs.
#include "dumps/base/output_place.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

std::string complaint(const std::string& target) {
  return message_of<OutputError>([&] { require_replaceable(target); });
}

TEST(OutputPlace, RegularFilesLinksToThemAndNewNamesMayBeReplaced) {
  const ScratchFolder folder;
  EXPECT_EQ(complaint(folder.file("new")), "");
  EXPECT_EQ(complaint(folder.write("old", "x")), "");
  std::filesystem::create_symlink("old", folder.file("link"));
  EXPECT_EQ(complaint(folder.file("link")), "");
  std::filesystem::create_symlink("nowhere", folder.file("dangling"));
  EXPECT_EQ(complaint(folder.file("dangling")), "");
}

TEST(OutputPlace, NothingElseMayBeReplaced) {
  const ScratchFolder folder;
  const auto expected = [](const std::string& target, const char* kind) {
    return target + ": expected a file that --force can replace, found " + kind;
  };
  EXPECT_EQ(complaint("/dev/null"), expected("/dev/null", "a device"));
  const std::string link = folder.file("link"), pipe = folder.file("pipe");
  std::filesystem::create_symlink("/dev/null", link);
  EXPECT_EQ(complaint(link), expected(link, "a device"));
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(complaint(pipe), expected(pipe, "a pipe"));
  EXPECT_EQ(complaint(folder.file("")), expected(folder.file(""), "a folder"));
}

TEST(OutputPlace, ItsFolderIsThere) {
  const ScratchFolder folder;
  const auto complaint = [](const std::string& target) {
    return message_of<OutputError>([&] { require_folder_of(target); });
  };
  EXPECT_EQ(complaint("r.h5"), "");
  EXPECT_EQ(complaint(folder.file("r.h5")), "");
  folder.write("file", "x");
  for (const char* name : {"no", "file", "file/in"}) {
    const std::string place = folder.file(name), target = place + "/r.h5";
    EXPECT_EQ(complaint(target), "cannot write '" + target + "': there is no folder '" + place + "'");
  }
}

TEST(OutputPlace, SpaceIsThatOfTheTargetsFileSystem) {
  const ScratchFolder folder;
  const std::string target = folder.file("dump.h5");
  const auto complaint = [](const std::string& path, double bytes) {
    return message_of<OutputError>([&] { require_free_space(path, bytes); });
  };
  EXPECT_EQ(complaint(target, 1), "");
  EXPECT_EQ(complaint("dump.h5", 1), "") << "in the current folder";
  const std::string sentence = complaint(target, 8.21e16);
  EXPECT_TRUE(sentence.starts_with(target + ": needs 72.9 PiB, the file system of ")) << sentence;
  EXPECT_TRUE(sentence.ends_with("B free")) << sentence;
  EXPECT_EQ(complaint(folder.file("absent/dump.h5"), 1e18), "") << "not known";
}

}  // namespace
}  // namespace attest
