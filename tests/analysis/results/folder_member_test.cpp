// Locks of processes that share a folder: one holder at a time; those of dead, killed, stopped and unreadable holders
// are free.
#include "analysis/results/folder_member.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSilence{400};

class FolderMemberTest : public ::testing::Test {
 protected:
  FolderMemberTest() { std::filesystem::create_directory(path_); }

  /// The file of a process on another machine, which never raises its count, and its lock.
  void write_stranger(const std::string& token, const std::string& lock, const std::string& count = "7") {
    const Json content{
        {"token", token}, {"host", "elsewhere"}, {"machine", "another"}, {"process", 12}, {"started", "1"}};
    folder_.write("p/process-" + token, std::string(20 - count.size(), '0') + count + "\n" + content.dump() + "\n");
    if (!lock.empty()) std::filesystem::create_hard_link(path_ + "/process-" + token, path_ + "/lock-" + lock);
  }
  /// Seconds until the lock was had; empty if it was not within kMostSeconds, many times what it takes.
  static constexpr double kMostSeconds = 60;
  static std::optional<double> seconds_to_lock(FolderMember& member, const std::string& name) {
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (member.try_lock(name)) return seconds;
      if (seconds > kMostSeconds) return std::nullopt;
      std::this_thread::sleep_for(milliseconds(10));
    }
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("p");
};

TEST_F(FolderMemberTest, ALockHasOneHolder) {
  FolderMember one(path_, kSilence);
  auto other = std::make_unique<FolderMember>(path_, kSilence);
  EXPECT_TRUE(one.try_lock("a"));
  EXPECT_FALSE(one.try_lock("a"));
  EXPECT_FALSE(other->try_lock("a"));
  EXPECT_EQ(other->holder("a")->token, one.self().token);
  EXPECT_EQ(other->holder("a")->name(), one.self().name());
  one.unlock("a");
  EXPECT_TRUE(other->try_lock("a"));
  std::this_thread::sleep_for(2 * kSilence);
  EXPECT_FALSE(one.try_lock("a")) << "its holder lives";
  other.reset();
  EXPECT_TRUE(one.try_lock("a"));
}

TEST_F(FolderMemberTest, TheLocksOfAKilledProcessAreFreeAtOnce) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    FolderMember theirs(path_);
    [[maybe_unused]] const auto written = ::write(ready[1], theirs.try_lock("a") ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  FolderMember own(path_);  // of a long silence
  EXPECT_FALSE(own.try_lock("a"));
  for (int i = 0; i < 3000 && !own.has_seen_another(); ++i) std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(own.has_seen_another());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_LT(seconds_to_lock(own, "a").value(), std::chrono::duration<double>(FolderMember::kSilence).count());
}

TEST_F(FolderMemberTest, AProcessElsewhereIsDeadWhenItsCountStandsStill) {
  write_stranger("00000000000000aa", "a");
  FolderMember own(path_, kSilence);
  EXPECT_GE(seconds_to_lock(own, "a").value(), 0.3);
  std::filesystem::remove(path_ + "/lock-a");
  write_stranger("00000000000000bb", "b");
  EXPECT_FALSE(own.try_lock("b"));
  const auto start = std::chrono::steady_clock::now();
  for (int count = 8; std::chrono::steady_clock::now() - start < 3 * kSilence; ++count) {
    write_stranger("00000000000000bb", "", std::to_string(count));
    EXPECT_FALSE(own.try_lock("b")) << "it counts";
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_TRUE(own.has_seen_another());
}

TEST_F(FolderMemberTest, CountsWhileALookAtAnotherProcessTakesLong) {
  write_stranger("00000000000000aa", "a");
  std::promise<void> end;
  std::atomic<int> looks = 0;
  const auto slow = [&, ended = end.get_future().share()](const std::string& path) {
    if (path.ends_with("process-00000000000000aa")) {
      ++looks;
      ended.wait();
    }
    return FolderMember::read_text(path);
  };
  constexpr milliseconds kLong{1000};
  FolderMember own(path_, kLong, slow);
  bool locked = true;
  std::jthread locking([&] { locked = own.try_lock("a"); });
  const auto wait_for = [](const auto& condition) {
    const auto start = std::chrono::steady_clock::now();
    while (!condition() && std::chrono::steady_clock::now() - start < std::chrono::duration<double>(kMostSeconds))
      std::this_thread::sleep_for(milliseconds(10));
    return condition();
  };
  const auto count = [&] { return FolderMember::read_text(path_ + "/process-" + own.self().token)->substr(0, 20); };
  EXPECT_TRUE(wait_for([&] { return looks == 2; })) << "the lock's, and that for others";
  const std::string before = count();
  EXPECT_TRUE(wait_for([&] { return count() > before; }));
  std::this_thread::sleep_for(kLong);
  end.set_value();
  locking.join();
  EXPECT_FALSE(locked || own.try_lock("a")) << "that a look took long says nothing of the process";
}

TEST_F(FolderMemberTest, AProcessWhoseFileIsGoneIsDead) {
  write_stranger("00000000000000aa", "a");
  std::filesystem::remove(path_ + "/process-00000000000000aa");
  FolderMember own(path_);
  EXPECT_TRUE(own.try_lock("a"));
}

TEST_F(FolderMemberTest, ALockThatCannotBeReadIsFreeAfterTheSilence) {
  FolderMember own(path_, kSilence);
  const std::string deep(3000, '[');
  for (const std::string& text :
       {std::string(), std::string("x"), "00000000000000000001\n" + deep,
        std::string("00000000000000000001\n{\"token\":\"../../etc\",\"host\":\"\",\"machine\":\"\",\"process\":1,"
                    "\"started\":\"\"}"),
        std::string("00000000000000000001\n{\"token\":\"0123456789abcdef\",\"process\":-99999999999999}")}) {
    folder_.write("p/lock-a", text);
    EXPECT_FALSE(own.holder("a"));
    EXPECT_TRUE(seconds_to_lock(own, "a")) << text.substr(0, 40);
    own.unlock("a");
  }
}

TEST_F(FolderMemberTest, ALockThatWasReadInTheMeantimeIsNotFreeAtOnce) {
  FolderMember own(path_, kSilence), other(path_, kSilence);
  folder_.write("p/lock-a", "x");
  EXPECT_FALSE(own.try_lock("a"));
  std::filesystem::remove(path_ + "/lock-a");
  EXPECT_TRUE(other.try_lock("a"));
  EXPECT_FALSE(own.try_lock("a"));
  std::this_thread::sleep_for(2 * kSilence);
  std::filesystem::remove(path_ + "/lock-a");
  folder_.write("p/lock-a", "x");
  EXPECT_FALSE(own.try_lock("a"));
}

TEST_F(FolderMemberTest, StartingOverWaitsUntilItIsClearThatNobodyIsAtWork) {
  std::atomic<bool> stop{false};
  std::vector<std::string> notices;
  const auto say = [&](const std::string& text) { notices.push_back(text); };
  FolderMember::require_none(path_, stop, say, kSilence);
  {
    const FolderMember here(path_, kSilence);
    EXPECT_EQ(message_of<OutputError>([&] { FolderMember::require_none(path_, stop, say, kSilence); }),
              "'" + path_ + "' is in use: " + here.self().name() + " works on this study; --resume joins it");
  }
  EXPECT_TRUE(notices.empty());
  write_stranger("00000000000000aa", "");
  FolderMember::require_none(path_, stop, say, kSilence);
  EXPECT_EQ(notices, (std::vector<std::string>{
                         "process 12 on 'elsewhere' had begun this study; waiting 0.4 s to see that it has ended"}));
  stop = true;
  EXPECT_THROW(FolderMember::require_none(path_, stop, say), Interrupted);
}

TEST_F(FolderMemberTest, EndsAlsoWhenNoFileCanBeOpened) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto member = std::make_unique<FolderMember>(path_);
    const bool locked = member->try_lock("a");
    while (::open("/dev/null", O_RDONLY) >= 0) {
    }
    member.reset();
    ::_exit(locked && std::filesystem::is_empty(path_) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

}  // namespace
}  // namespace attest
