// InputGuard refuses to resume a study with inputs of another content, and notices changes during the study.
#include "analysis/run/input_guard.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

class InputGuardTest : public ::testing::Test {
 protected:
  InputGuardTest() : partial_(folder_.file("partial"), PartialResults::Start::resume, "{}") {
    folder_.write("dump.h5", "content");
  }

  /// One complete run; returns the input's hash.
  std::string complete_run() {
    InputHashes hashes({input_status(path_)}, 1);
    return InputGuard({input_status(path_)}, partial_, hashes, stop_).finish().at(0);
  }
  void begin_run() {
    InputHashes hashes({input_status(path_)}, 1);
    InputGuard({input_status(path_)}, partial_, hashes, stop_);
  }

  void write_with_time(std::string_view content, fs::file_time_type time) {
    folder_.write("dump.h5", content);
    fs::last_write_time(path_, time);
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("dump.h5");
  PartialResults partial_;
  std::atomic<bool> stop_{false};
};

TEST_F(InputGuardTest, HashesTheContent) {
  const std::string hash = complete_run();
  EXPECT_EQ(hash.size(), 16u);
  folder_.write("dump.h5", "contenT");
  PartialResults other(folder_.file("other"), PartialResults::Start::resume, "{}");
  InputHashes hashes({input_status(path_)}, 1);
  EXPECT_NE(InputGuard({input_status(path_)}, other, hashes, stop_).finish().at(0), hash);
}

TEST_F(InputGuardTest, TheSameContentMayBeTouchedOrCopied) {
  const std::string hash = complete_run();
  write_with_time("content", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(complete_run(), hash);
}

TEST_F(InputGuardTest, AnotherContentIsRefusedAtOnce) {
  complete_run();
  write_with_time("CONTENT", fs::file_time_type(fs::last_write_time(path_)));
  const std::string refusal = "cannot resume: " + partial_.self() + " reads another '" + path_ + "' than " +
                              partial_.self() + " did, of other content; start over with --force instead of --resume";
  EXPECT_EQ(message_of<InputError>([&] { begin_run(); }), refusal);
  EXPECT_EQ(message_of<InputError>([&] { complete_run(); }), refusal);
}

TEST_F(InputGuardTest, ADamagedNoteCountsAsMissing) {
  for (const char* note : {"", "[", "7", "[7]", R"({"by": 7, "xxh64_of_1MiB": ["0"]})", R"({"xxh64_of_1MiB": {}})"}) {
    folder_.write("partial/note-inputs.json", note);
    EXPECT_EQ(complete_run().size(), 16u) << note;
  }
}

TEST_F(InputGuardTest, ChangesDuringTheStudyAreNoticed) {
  InputHashes hashes({input_status(path_)}, 1);
  InputGuard guard({input_status(path_)}, partial_, hashes, stop_);
  write_with_time("CONTENT", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(message_of<InputError>([&] { guard.finish(); }), "'" + path_ + "' changed while it was studied");
}

}  // namespace
}  // namespace attest
