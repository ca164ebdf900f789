// Dumps of a finished study, found again or refused.
#include "analysis/run/study_input.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "analysis/run/input_hashes.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class StudyInput : public testing::Test {
 protected:
  StudyInput() {
    fs::create_directories(folder_ / "elsewhere");
    write(folder_ / "d.h5", "some bytes");
    InputHashes hashes({input_status((folder_ / "d.h5").string())}, 1);
    hash_ = hashes.wait(std::chrono::minutes(1))->front();
  }

  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

  std::string manifest(const std::string& end_time = "2999-01-01T00:00:00Z", bool with_hash = true) const {
    return fmt::format(
        R"({{"end_time": "{}", "inputs": [{{"path": "d.h5", "bytes": 10, "xxh64_of_1MiB": "{}"}}],
             "configuration": {{"dumps": [{{"path": "{}"}}]}}}})",
        end_time, with_hash ? hash_ : "", (folder_ / "d.h5").string());
  }
  std::string results() const { return (folder_ / "elsewhere" / "r.h5").string(); }

  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
  std::string hash_;
};

TEST_F(StudyInput, TheSameBytesAreFoundWhereTheStudyReadThem) {
  const FoundInput found = find_input(manifest(), 0, results(), 1);
  EXPECT_EQ(found.path, (folder_ / "d.h5").string());
  EXPECT_TRUE(found.hashed);
  EXPECT_EQ(found.problem, "");
}

TEST_F(StudyInput, OrBesideTheResults) {
  fs::rename(folder_ / "d.h5", folder_ / "elsewhere" / "d.h5");
  EXPECT_EQ(find_input(manifest(), 0, results(), 1).path, (folder_ / "elsewhere" / "d.h5").string());
}

TEST_F(StudyInput, OtherBytesAreRefused) {
  write(folder_ / "d.h5", "some bytez");
  EXPECT_THAT(find_input(manifest(), 0, results(), 1).problem, HasSubstr("d.h5 has changed since the study"));
  EXPECT_EQ(find_input(manifest(), 0, results(), 1).path, "");
  write(folder_ / "d.h5", "some more bytes");
  EXPECT_THAT(find_input(manifest(), 0, results(), 1).problem, HasSubstr("it has 15 bytes"));
  fs::remove(folder_ / "d.h5");
  EXPECT_THAT(find_input(manifest(), 0, results(), 1).problem, HasSubstr("No such file"));
}

TEST_F(StudyInput, LargeOnesAreTakenByTheirSizeIfOlderThanTheResults) {
  const FoundInput older = find_input(manifest(), 0, results(), 1, 9);
  EXPECT_EQ(older.path, (folder_ / "d.h5").string());
  EXPECT_FALSE(older.hashed);
  const FoundInput newer = find_input(manifest("2001-01-01T00:00:00Z"), 0, results(), 1, 9);
  EXPECT_EQ(newer.path, "");
  EXPECT_THAT(newer.problem, HasSubstr("was modified after the study and is too large to be hashed here"));
  EXPECT_THAT(find_input(manifest("2001-01-01T00:00:00Z", false), 0, results(), 1).problem,
              HasSubstr("was modified after the study and has no hash in the manifest"));
  EXPECT_THAT(find_input(manifest("", false), 0, results(), 1).problem,
              HasSubstr("whether it has changed cannot be told, since the manifest has no end of the study"));
}

TEST_F(StudyInput, AManifestThatNamesNoDumpIsSaidToBeSo) {
  for (const std::string& text : {std::string(), std::string("{}"), std::string("[1]"), std::string(R"({"inputs": 3})"),
                                  std::string(R"({"inputs": [{"path": 7}]})")})
    EXPECT_EQ(find_input(text, 0, results(), 1).problem, "the results' manifest does not name their dump") << text;
  EXPECT_EQ(find_input(manifest(), 1, results(), 1).problem, "the results' manifest does not name their dump");
}

}  // namespace
}  // namespace attest
