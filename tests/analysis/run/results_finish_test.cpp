// Which of several processes writes the results file. A PartialResults stands for a process.
#include "analysis/run/results_finish.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "dumps/base/error.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

class ResultsFinishTest : public ::testing::Test {
 protected:
  ResultsFinishTest() {
    run_.study = test::small_study();
    run_.options.output = folder_.file("r.h5");
    run_.options.with_dense_layers = true;
    run_.configuration = R"({"study": "small"})";
    test::each_unit(run_.study, [&](int dump, int sample, int layer) {
      run_.plan.units.push_back({static_cast<std::size_t>(dump), static_cast<std::size_t>(sample), layer});
    });
    first_.emplace(partial_, PartialResults::Start::fresh, run_.configuration, &run_.study);
    second_.emplace(partial_, PartialResults::Start::resume, run_.configuration, &run_.study);
  }

  LayerResults results_of(const UnitKey& unit) const {
    return test::small_results(run_.study, static_cast<int>(unit.dump), static_cast<int>(unit.sample), unit.layer);
  }
  void add_all(ResultsFinish& results) const {
    for (const UnitKey& unit : run_.plan.units) results.add(unit, results_of(unit));
    EXPECT_TRUE(results.complete());
  }
  void write(ResultsFinish& results, const PartialResults& partial) {
    InputHashes hashes({}, 1);
    InputGuard inputs({}, partial, hashes, stop_);
    results.write("CPU", inputs, notice_);
  }
  void expect_written() const {
    EXPECT_FALSE(PartialResults::exists(partial_));
    expect_results();
  }
  void expect_results() const {
    const ResultsFile file(run_.options.output);
    const auto recall = file.read(0, 0, 0, "recall", ReadCells::all);
    ASSERT_TRUE(recall);
    EXPECT_EQ(recall->values[0], results_of({0, 0, 0}).selectors[0].metrics[0].values[0]);
  }

  const ScratchFolder folder_;
  const std::string partial_ = folder_.file("r.partial");
  std::string told_;
  const ResultsFinish::Notice notice_ = [this](const std::string& text) { told_ += text; };
  std::atomic<bool> stop_ = false;
  PreparedStudy run_;
  std::optional<PartialResults> first_, second_;
};

TEST_F(ResultsFinishTest, TheFirstFillsTheFileAndWritesIt) {
  ResultsFinish results(run_, *first_);
  EXPECT_TRUE(results.fills());
  add_all(results);
  EXPECT_EQ(results.wait_for_turn(stop_, notice_), ResultsFinish::Turn::write);
  second_.reset();
  write(results, *first_);
  expect_written();
}

TEST_F(ResultsFinishTest, AnotherWaitsUntilTheFirstHasWritten) {
  ResultsFinish results(run_, *first_), other(run_, *second_);
  EXPECT_FALSE(other.fills());
  add_all(results);
  add_all(other);
  stop_ = true;
  EXPECT_THROW(other.wait_for_turn(stop_, notice_), Interrupted);
  stop_ = false;
  write(results, *first_);
  EXPECT_EQ(other.wait_for_turn(stop_, notice_), ResultsFinish::Turn::completed);
  expect_written();
}

TEST_F(ResultsFinishTest, AnotherFillsTheFileIfTheFirstIsGone) {
  std::optional<ResultsFinish> results(std::in_place, run_, *first_);
  ResultsFinish other(run_, *second_);
  add_all(other);
  results.reset();
  first_.reset();
  EXPECT_EQ(other.wait_for_turn(stop_, notice_), ResultsFinish::Turn::fill);
  for (const UnitKey& unit : run_.plan.units) other.add_to_file(results_of(unit));
  write(other, *second_);
  expect_written();
}

TEST_F(ResultsFinishTest, AFolderThatCannotBeRemovedIsANotice) {
  ResultsFinish results(run_, *first_);
  add_all(results);
  std::filesystem::rename(partial_, folder_.file("elsewhere"));
  std::filesystem::create_directory_symlink(folder_.file("elsewhere"), partial_);
  write(results, *first_);
  EXPECT_EQ(told_, "'" + partial_ + "' is a link, expected a folder");
  expect_results();
}

}  // namespace
}  // namespace attest
