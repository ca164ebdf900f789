// One job of ranks at a time in a folder; a dead one is replaced.
#include "analysis/run/folder_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "dumps/base/error.h"
#include "dumps/base/process_identity.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

class FolderSessionTest : public ::testing::Test {
 protected:
  /// The note of a job whose rank 0 is that process.
  void note(const ProcessIdentity& process) {
    partial_.store_note("ranks.json", nlohmann::json{{"token", "other"},
                                                     {"host", process.host},
                                                     {"machine", process.machine},
                                                     {"process", process.process},
                                                     {"started", process.started},
                                                     {"lease_ms", 200},
                                                     {"beats", beats_++}}
                                          .dump());
  }
  std::string refusal() {
    return message_of<OutputError>([&] { FolderSession(partial_, milliseconds(200), stop_, notice_); });
  }

  static std::string complaint_of(const FolderSession& session) {
    for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(milliseconds(10)))
      if (const std::string found = message_of<OutputError>([&] { session.check(); }); !found.empty()) return found;
    return "";
  }

  ScratchFolder folder_;
  PartialResults partial_{folder_.file("partial"), PartialResults::Start::fresh, "{}"};
  std::atomic<bool> stop_ = false;
  int beats_ = 0;
  std::vector<std::string> notices_;
  const FolderSession::Notice notice_ = [this](const std::string& text) { notices_.push_back(text); };
};

TEST_F(FolderSessionTest, IsSeenAndRemovedAtTheEnd) {
  {
    const FolderSession session(partial_, milliseconds(200), stop_, notice_);
    EXPECT_TRUE(FolderSession::sees(partial_.folder(), session.token()));
    EXPECT_FALSE(FolderSession::sees(partial_.folder(), "another"));
    EXPECT_FALSE(FolderSession::sees(folder_.file("elsewhere"), session.token()));
    EXPECT_THAT(refusal(),
                ::testing::HasSubstr("is in use: ranks of another job work on the study, rank 0 is process "));
    EXPECT_THROW(FolderSession::require_none(partial_.folder(), stop_, notice_), OutputError);
  }
  EXPECT_NO_THROW(FolderSession::require_none(partial_.folder(), stop_, notice_));
  EXPECT_EQ(partial_.load_note("ranks.json"), std::nullopt);
}

TEST_F(FolderSessionTest, ADeadProcessOfThisMachineIsReplacedAtOnce) {
  ProcessIdentity dead = ProcessIdentity::of_this_process();
  dead.started = "1";
  note(dead);
  EXPECT_EQ(refusal(), "");
  EXPECT_TRUE(notices_.empty());
}

TEST_F(FolderSessionTest, OneOfAnotherMachineIsReplacedOnceItIsSilent) {
  ProcessIdentity other = ProcessIdentity::of_this_process();
  other.machine = "another";
  note(other);
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(notices_.size(), 1u);
  note(other);
  std::jthread beating([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      note(other);
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  EXPECT_THAT(refusal(), ::testing::HasSubstr("is in use"));
}

TEST_F(FolderSessionTest, NoticesThatAnotherHasTakenOver) {
  FolderSession session(partial_, milliseconds(40), stop_, notice_);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_NO_THROW(session.check());
  note(ProcessIdentity::of_this_process());
  EXPECT_THAT(complaint_of(session), ::testing::HasSubstr("is in use"));
}

TEST_F(FolderSessionTest, NoticesThatTheFolderWasCleared) {
  FolderSession session(partial_, milliseconds(40), stop_, notice_);
  partial_.remove_note("ranks.json");
  EXPECT_EQ(complaint_of(session),
            "another command has removed the files of this study in '" + partial_.folder() + "'");
  EXPECT_EQ(partial_.load_note("ranks.json"), std::nullopt) << "the folder may be another's by now";
}

TEST_F(FolderSessionTest, CountsUpWithoutBeingAsked) {
  FolderSession session(partial_, milliseconds(40), stop_, notice_);
  const auto before = partial_.load_note("ranks.json");
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_NE(partial_.load_note("ranks.json"), before);
  session.end();
  const auto last = partial_.load_note("ranks.json");
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(partial_.load_note("ranks.json"), last);
}

TEST_F(FolderSessionTest, ADamagedNoteIsNone) {
  for (const char* text : {"", "{", "[]", "{\"token\": 3}", "{\"token\": \"a\", \"host\": []}"}) {
    partial_.store_note("ranks.json", text);
    EXPECT_NO_THROW(FolderSession::require_none(partial_.folder(), stop_, notice_)) << text;
  }
}

}  // namespace
}  // namespace attest
