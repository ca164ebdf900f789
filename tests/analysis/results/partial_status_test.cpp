// study.json of unfinished studies: what is read of it, and what is refused.
#include "analysis/results/partial_status.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "analysis/results/partial_results.h"
#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"

namespace attest::testing {
namespace {

constexpr const char* kStudy = R"({"program":"1","git_commit":"c","device":"cpu","selectors":[{"label":"ffd"}],)"
                               R"("dumps":[{"path":"/a.h5","samples":[{"name":"s","layers":[0,2]}]}]})";

class PartialStatusTest : public ::testing::Test {
 protected:
  std::string document(const std::string& study = kStudy) const {
    return R"({"begun":"2025-01-02T03:04:05Z","study":)" + study + "}";
  }
  /// What is said of a folder whose study.json is `text`, from behind its name.
  std::string sentence(const std::string& text) {
    folder_.write("r.partial/study.json", text);
    const std::string message = message_of<InputError>([&] { read_partial_status(path_); });
    EXPECT_EQ(message.find('\n'), std::string::npos);
    const std::string file = path_ + "/study.json: ";
    return message.starts_with(file) ? message.substr(file.size()) : message;
  }
  /// kStudy without one of its members, or with another value in its place.
  static std::string with(const std::string& member, const std::string& other) {
    std::string study = kStudy;
    return study.replace(study.find(member), member.size(), other);
  }

  ScratchFolder folder_;
  std::string path_ = folder_.file("r.partial");
};

TEST_F(PartialStatusTest, TellsWhichLayersAreThere) {
  EXPECT_EQ(sentence(document()), "");
  folder_.write("r.partial/unit-0-0-2.bin", "");
  folder_.write("r.partial/unit-0-1-0.bin", "");  // of no sample
  const PartialStatus status = read_partial_status(path_);
  EXPECT_EQ(status.num_layers(), 2);
  EXPECT_EQ(status.num_finished(), 1);
  EXPECT_EQ(status.program, "1, commit c");
}

TEST_F(PartialStatusTest, WhatIsNoJsonIsRefused) {
  const std::string damaged = "is damaged, expected JSON of at most 64 levels";
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("\xff\xfe"), document() + "x", document("{"),
        document(std::string(100, '[') + std::string(100, ']')), std::string(200'000, '[')})
    EXPECT_EQ(sentence(text), damaged) << text.substr(0, 40);
}

TEST_F(PartialStatusTest, MembersThatAreMissingOrOfAnotherKind) {
  const std::pair<std::string, std::string> cases[]{
      {"7", "is damaged ([json.exception.type_error.304] cannot use at() with number)"},
      {"[]", "is damaged ([json.exception.type_error.304] cannot use at() with array)"},
      {"{}", "is damaged ([json.exception.out_of_range.403] key 'study' not found)"},
      {document("null"), "is damaged ([json.exception.type_error.304] cannot use at() with null)"},
      {document(with(R"("program":"1",)", "")),
       "is damaged ([json.exception.out_of_range.403] key 'program' not found)"},
      {document(with(R"("git_commit":"c",)", "")),
       "is damaged ([json.exception.out_of_range.403] key 'git_commit' not found)"},
      {document(with(R"("cpu")", "7")),
       "is damaged ([json.exception.type_error.302] type must be string, but is number)"},
      {document(with(R"([{"label":"ffd"}])", "[7]")),
       "is damaged ([json.exception.type_error.304] cannot use at() with number)"},
      {document(with(R"("ffd")", "null")),
       "is damaged ([json.exception.type_error.302] type must be string, but is null)"},
      {document(with(R"("path":"/a.h5",)", "")), "is damaged ([json.exception.out_of_range.403] key 'path' not found)"},
      {document(with(R"("s")", "{}")),
       "is damaged ([json.exception.type_error.302] type must be string, but is object)"},
      {document(with("[0,2]", "\"0\"")),
       "is damaged ([json.exception.type_error.302] type must be array, but is string)"},
      {document(with("[0,2]", "[{}]")),
       "is damaged ([json.exception.type_error.302] type must be number, but is object)"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(sentence(text), expected) << text;
}

TEST_F(PartialStatusTest, AFileThatIsTooLargeIsRefusedByItsSize) {
  folder_.write("r.partial/study.json", "{");
  std::filesystem::resize_file(path_ + "/study.json", std::uint64_t{1} << 40);
  EXPECT_EQ(message_of<InputError>([&] { read_partial_status(path_); }),
            path_ + "/study.json: has 1099511627776 bytes, expected at most 16777216");
}

TEST_F(PartialStatusTest, AFolderOfSomethingElse) {
  std::filesystem::create_directory(path_);
  EXPECT_EQ(message_of<InputError>([&] { read_partial_status(path_); }),
            path_ +
                ": is a folder without a study.json, expected a file, or the folder of an unfinished study "
                "(RESULTS.partial)");
}

TEST_F(PartialStatusTest, AStudyIsResumedOnlyOfASoundFile) {
  const auto resume = [&](const std::string& text) {
    folder_.write("r.partial/study.json", text);
    return message_of<Error>([&] { PartialResults(path_, PartialResults::Start::resume, kStudy); });
  };
  EXPECT_EQ(resume(document()), "");
  const std::string damaged = "'" + path_ + "/study.json' is damaged; start over with --force instead of --resume";
  for (const std::string& text :
       {std::string(), std::string("7"), std::string("[]"), std::string("{}"), document() + "x",
        std::string(R"({"begun":7,"study":{}})"), std::string(R"({"begun":"now"})"),
        document(std::string(100, '[') + std::string(100, ']'))})
    EXPECT_EQ(resume(text), damaged) << text.substr(0, 40);
  const std::string kEnd = "; start over with --force instead of --resume";
  const std::string other = "cannot resume '" + path_ + "': it was started with ";
  EXPECT_EQ(resume(document(with("\"cpu\"", "\"cuda\""))), other + R"(device = "cuda", this command has "cpu")" + kEnd);
  EXPECT_EQ(resume(document(with("[0,2]", "[0]"))),
            other + "dump 1, sample 1, layers = [0], this command has [0,2]" + kEnd);
  const std::string name(5000, 'x');
  EXPECT_EQ(resume(document(with("\"cpu\"", "\"" + name + "\""))),
            other + "device = \"" + name.substr(0, 199) + "..., this command has \"cpu\"" + kEnd);
  EXPECT_EQ(resume(document(with("\"program\"", "\"" + name + "\":0,\"program\""))),
            other + name.substr(0, 200) + "... = 0, this command has none" + kEnd);
}

}  // namespace
}  // namespace attest::testing
