// study.json of unfinished studies: what is read of it, and what is refused.
#include "analysis/results/partial_status.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "analysis/results/partial_results.h"
#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
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
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("\xff\xfe"), document() + "x", document("{")})
    EXPECT_EQ(sentence(text).substr(0, 15), "line 1, column ") << text.substr(0, 40);
  EXPECT_EQ(sentence(document(std::string(100, '[') + std::string(100, ']'))), "more than 64 levels");
  EXPECT_EQ(sentence(std::string(200'000, '[')), "more than 64 levels");
}

TEST_F(PartialStatusTest, MembersThatAreMissingOrOfAnotherKind) {
  const std::pair<std::string, std::string> cases[]{
      {"7", "expected the description of a study, a JSON object, found 7"},
      {"[]", "expected the description of a study, a JSON object, found a list"},
      {"{}", "begun is missing, expected a text"},
      {document("null"), "study is null, expected an object"},
      {document(with(R"("program":"1",)", "")), "study.program is missing, expected a text"},
      {document(with(R"("git_commit":"c",)", "")), "study.git_commit is missing, expected a text"},
      {document(with(R"("cpu")", "7")), "study.device is 7, expected a text"},
      {document(with(R"([{"label":"ffd"}])", "[7]")), "study.selectors[0] is 7, expected an object"},
      {document(with(R"("ffd")", "null")), "study.selectors[0].label is null, expected a text"},
      {document(with(R"("path":"/a.h5",)", "")), "study.dumps[0].path is missing, expected a text"},
      {document(with(R"("s")", "{}")), "study.dumps[0].samples[0].name is an object, expected a text"},
      {document(with("[0,2]", "\"0\"")), "study.dumps[0].samples[0].layers is \"0\", expected a list"},
      {document(with("[0,2]", "[{}]")),
       "study.dumps[0].samples[0].layers[0] is an object, expected a whole number from 0 to 2147483647"},
      {document(with("[0,2]", "[-1]")),
       "study.dumps[0].samples[0].layers[0] is -1, expected a whole number from 0 to 2147483647"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(sentence(text), expected) << text;
}

TEST_F(PartialStatusTest, AFileThatIsTooLargeIsRefusedByItsSize) {
  folder_.write("r.partial/study.json", "{");
  std::filesystem::resize_file(path_ + "/study.json", std::uint64_t{1} << 40);
  EXPECT_EQ(message_of<InputError>([&] { read_partial_status(path_); }),
            path_ + "/study.json: has 1099511627776 bytes, expected the description of a study of at most 16777216");
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
}  // namespace attest::test
