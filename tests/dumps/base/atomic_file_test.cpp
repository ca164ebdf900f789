// A file appears complete or not at all; links are not followed, and protected files not replaced.
#include "dumps/base/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  std::set<std::string> names(const std::string& folder = ".") const {
    std::set<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.file(folder)))
      found.insert(entry.path().filename().string());
    return found;
  }
  /// The name of the only file that is not `known`.
  std::string other_than(const std::set<std::string>& known) const {
    std::set<std::string> found = names();
    for (const std::string& name : known) found.erase(name);
    EXPECT_EQ(found.size(), 1u);
    return *found.begin();
  }

  ScratchFolder folder_;
  std::string target_ = folder_.file("a.h5");
};

TEST_F(AtomicFileTest, AppearsWithCommit) {
  {
    AtomicFile file(target_);
    file.write("one, ");
    EXPECT_FALSE(fs::exists(target_));
    file.write("two");
    file.commit();
    EXPECT_EQ(bytes_of_file(target_), "one, two");
  }
  EXPECT_EQ(bytes_of_file(target_), "one, two") << "the destructor leaves it";
  EXPECT_EQ(names(), (std::set<std::string>{"a.h5"}));
}

TEST_F(AtomicFileTest, WithoutCommitNothingRemains) {
  folder_.write("a.h5", "old");
  {
    AtomicFile file(target_);
    file.write("half");
    EXPECT_EQ(names().size(), 2u);
  }
  EXPECT_EQ(names(), (std::set<std::string>{"a.h5"}));
  EXPECT_EQ(bytes_of_file(target_), "old");
}

TEST_F(AtomicFileTest, WrittenAtOnceAndUnsynced) {
  const std::string content(3'000'000, 'x');
  write_atomically(target_, content, {.sync = false});
  EXPECT_EQ(bytes_of_file(target_), content);
  write_atomically(target_, "");
  EXPECT_EQ(bytes_of_file(target_), "") << "replaced";
  EXPECT_EQ(names(), (std::set<std::string>{"a.h5"}));
}

TEST_F(AtomicFileTest, HasTheUsualPermissions) {
  for (const mode_t mask : {022, 077, 002}) {
    const mode_t before = ::umask(mask);
    write_atomically(target_, "text");
    ::umask(before);
    struct stat status {};
    ASSERT_EQ(::stat(target_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0666 & ~mask);
  }
}

TEST_F(AtomicFileTest, IsInTheFolderAskedForUntilThen) {
  fs::create_directory(folder_.file("aside"));
  AtomicFile file(target_, {.folder = folder_.file("aside")});
  EXPECT_EQ(names(), (std::set<std::string>{"aside"}));
  EXPECT_EQ(names("aside").size(), 1u);
  file.commit();
  EXPECT_EQ(names(), (std::set<std::string>{"a.h5", "aside"}));
  EXPECT_TRUE(names("aside").empty());
}

TEST_F(AtomicFileTest, AFileThatIsToStayStays) {
  const std::string message = target_ + ": exists already, expected a new file (or --force)";
  folder_.write("a.h5", "precious");
  EXPECT_EQ(message_of<OutputError>([&] { AtomicFile(target_, {.overwrite = false}); }), message) << "at once";
  fs::remove(target_);
  {
    AtomicFile file(target_, {.overwrite = false});
    file.write("new");
    folder_.write("a.h5", "precious");
    EXPECT_EQ(message_of<OutputError>([&] { file.commit(); }), message) << "it appeared meanwhile";
  }
  EXPECT_EQ(bytes_of_file(target_), "precious");
  EXPECT_EQ(names(), (std::set<std::string>{"a.h5"}));

  fs::remove(target_);
  fs::create_symlink("nowhere", target_);
  EXPECT_EQ(message_of<OutputError>([&] { AtomicFile(target_, {.overwrite = false}); }), message) << "a link counts";
  fs::remove(target_);
  AtomicFile file(target_, {.overwrite = false});
  file.write("new");
  file.commit();
  EXPECT_EQ(bytes_of_file(target_), "new");
  EXPECT_EQ(names(), (std::set<std::string>{"a.h5"})) << "one name only";
}

TEST_F(AtomicFileTest, LinksUnderNamesThatCanBeGuessedAreNotFollowed) {
  folder_.write("victim", "precious");
  std::set<std::string> planted;
  for (const std::string& end : {fmt::format("{}", ::getpid()), std::string(), std::string(16, '0')})
    for (const char* mark : {".tmp", ".tmp-", ".tmp.", "~", ".part"})
      planted.insert(fmt::format("a.h5{}{}", mark, end));
  for (const std::string& name : planted) fs::create_symlink("victim", folder_.file(name));
  write_atomically(target_, "new");
  EXPECT_EQ(bytes_of_file(folder_.file("victim")), "precious");
  for (const std::string& name : planted) EXPECT_TRUE(fs::is_symlink(folder_.file(name))) << name;
  EXPECT_EQ(names().size(), planted.size() + 2);
}

TEST_F(AtomicFileTest, ALinkThatTakesTheFilesPlaceOrTheTargetsIsNotFollowed) {
  folder_.write("victim", "precious");
  fs::create_symlink("victim", target_);
  AtomicFile file(target_);
  const std::string temporary = folder_.file(other_than({"victim", "a.h5"}));
  fs::rename(temporary, folder_.file("moved"));
  fs::create_symlink("victim", temporary);
  file.write("new");
  EXPECT_EQ(bytes_of_file(folder_.file("moved")), "new");
  fs::rename(folder_.file("moved"), temporary);
  file.commit();
  EXPECT_FALSE(fs::is_symlink(target_));
  EXPECT_EQ(bytes_of_file(target_), "new");
  EXPECT_EQ(bytes_of_file(folder_.file("victim")), "precious");
}

TEST_F(AtomicFileTest, NamesUnderWayDifferAndAreKnown) {
  const AtomicFile one(target_), other(target_);
  const std::set<std::string> found = names();
  EXPECT_EQ(found.size(), 2u);
  for (const std::string& name : found) EXPECT_TRUE(AtomicFile::is_temporary_name(name)) << name;
  for (const char* name : {"", "a.h5", "a.tmp-", "a.tmp-0123", "0123456789abcdef", "a.tmp-0123456789abcdef.h5",
                           "a.tmp-0123456789ABCDEF", "a.tmp_0123456789abcdef", "a.tmp-00123456789abcdef"})
    EXPECT_FALSE(AtomicFile::is_temporary_name(name)) << name;
}

TEST_F(AtomicFileTest, SaysWhyItCannotBeWritten) {
  const std::string absent = folder_.file("absent/a.h5");
  EXPECT_EQ(message_of<OutputError>([&] { AtomicFile{absent}; }),
            absent + ": cannot be written (No such file or directory)");
  fs::create_directory(target_);
  EXPECT_EQ(message_of<OutputError>([&] { AtomicFile{target_}; }),
            target_ + ": expected a file that --force can replace, found a folder");
  EXPECT_EQ(names(), (std::set<std::string>{"a.h5"}));
  EXPECT_NE(message_of<OutputError>([] { AtomicFile{""}; }), "");
}

TEST_F(AtomicFileTest, APipeThatTakesTheTargetsPlaceIsNotReplaced) {
  AtomicFile file(target_);
  file.write("new");
  ASSERT_EQ(::mkfifo(target_.c_str(), 0600), 0);
  EXPECT_EQ(message_of<OutputError>([&] { file.commit(); }),
            target_ + ": expected a file that --force can replace, found a pipe");
  EXPECT_TRUE(fs::is_fifo(target_));
}

TEST_F(AtomicFileTest, AFolderThatGoesAwayIsAnOutputError) {
  fs::create_directory(folder_.file("b"));
  AtomicFile file(folder_.file("b/a.h5"));
  fs::remove_all(folder_.file("b"));
  EXPECT_EQ(message_of<OutputError>([&] { file.commit(); }),
            folder_.file("b/a.h5") + ": cannot be written (No such file or directory)");
}

/// For a process of its own: exits with 5 and the OutputError's message, or with 0 if there was none.
[[noreturn]] void write_and_exit(const std::string& path, const std::string& content) {
  const std::string message = message_of<OutputError>([&] { write_atomically(path, content); });
  std::fputs(message.c_str(), stderr);
  std::exit(message.empty() ? 0 : 5);
}

/// As an ordinary user, because permissions do not restrict root.
[[noreturn]] void write_as_user(const std::string& path) {
  if (::geteuid() == 0 && ::setuid(65534) != 0) std::exit(1);
  write_and_exit(path, "text");
}

/// A limit on file sizes simulates a full disk.
[[noreturn]] void write_with_limit(const std::string& path, rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  write_and_exit(path, std::string(1001, 'x'));
}

/// A process that may open no more files cannot open the folder to sync it.
[[noreturn]] void commit_without_descriptors(const std::string& path) {
  AtomicFile file(path);
  file.write("new");
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_NOFILE, &none);
  std::fputs(message_of<OutputError>([&] { file.commit(); }).c_str(), stderr);
  std::exit(5);
}

TEST_F(AtomicFileTest, AFolderThatCannotBeSyncedIsToldWithTheFileInPlace) {
  folder_.write("a.h5", "old");
  EXPECT_EXIT(commit_without_descriptors(target_), testing::ExitedWithCode(5),
              "a.h5: is written, but its folder cannot be synced \\(Too many open files\\)");
  EXPECT_EQ(bytes_of_file(target_), "new");
  EXPECT_EQ(names(), (std::set<std::string>{"a.h5"}));
}

TEST_F(AtomicFileTest, AReadOnlyFolderIsAnOutputError) {
  fs::permissions(folder_.file("."), fs::perms{0555});
  EXPECT_EXIT(write_as_user(target_), testing::ExitedWithCode(5), "a.h5: cannot be written \\(Permission denied\\)");
  fs::permissions(folder_.file("."), fs::perms{0755});
  EXPECT_TRUE(folder_.empty());
}

TEST_F(AtomicFileTest, AFolderThatCannotBeReadWillDo) {
  fs::permissions(folder_.file("."), fs::perms{0333});
  EXPECT_EXIT(write_as_user(target_), testing::ExitedWithCode(0), "");
  fs::permissions(folder_.file("."), fs::perms{0755});
  EXPECT_EQ(bytes_of_file(target_), "text");
}

TEST_F(AtomicFileTest, AFullDiskIsAnOutputErrorAndLeavesNothing) {
  folder_.write("a.h5", "old");
  EXPECT_EXIT(write_with_limit(target_, 1000), testing::ExitedWithCode(5),
              "a.h5: cannot be written \\(File too large\\)");
  EXPECT_EQ(names(), (std::set<std::string>{"a.h5"}));
  EXPECT_EQ(bytes_of_file(target_), "old");
  EXPECT_EXIT(write_with_limit(target_, 1001), testing::ExitedWithCode(0), "");
}

TEST_F(AtomicFileTest, TheLongestNamesHaveRoom) {
  for (const std::string& name : {std::string(255, 'x'), std::string(240, 'x'), "x" + std::string(126, '\xC3')}) {
    std::string target;
    for (const char c : name) target += c == '\xC3' ? "\xC3\xA9" : std::string(1, c);
    AtomicFile file(folder_.file(target));
    const std::string temporary = *names().begin();
    EXPECT_TRUE(AtomicFile::is_temporary_name(temporary));
    const std::string stem = temporary.substr(0, temporary.size() - 21);
    EXPECT_TRUE(target.starts_with(stem) && (target[stem.size()] & 0xC0) != 0x80) << "cut between two characters";
    file.commit();
    fs::remove(folder_.file(target));
  }
}

}  // namespace
}  // namespace attest
