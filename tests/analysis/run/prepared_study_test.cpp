// What is refused, or said, before the first unit of a study is computed.
#include "analysis/run/prepared_study.h"

#include <gtest/gtest.h>

#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "tests/analysis/studies.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
extern const SelectorInfo template_info;
namespace {

void expect_has(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), text.npos) << text; }

class PreparedStudyTest : public ::testing::Test {
 protected:
  PreparedStudyTest() { test::write_small_dump(dump_); }

  Study study_with(std::vector<StudySelector> selectors) const {
    Study study = test::study_of(std::move(selectors));
    study.dumps = {{.path = dump_, .model = {}, .shape = {}, .samples = {}}};
    return study;
  }
  std::unique_ptr<PreparedStudy> prepare(Study study, RunOptions options = {}) {
    return prepare_study(std::move(study), std::move(options), stop_, observer_);
  }
  template <class Error>
  std::string refusal(const Study& study, const RunOptions& options = {}) {
    return message_of<Error>([&] { prepare(study, options); });
  }

  const ScratchFolder folder_;
  const std::string dump_ = folder_.file("dump.h5");
  const std::atomic<bool> stop_ = false;
  std::vector<std::string> notices_;
  const StudyObserver observer_{
      .started = {}, .progress = {}, .notice = [this](const std::string& text) { notices_.push_back(text); }};
};

TEST_F(PreparedStudyTest, ASelectorThatDoesNotFitIsRefusedOrIfNobodyNamedItLeftOut) {
  Study study = study_with({test::study_selector("exact", {}), test::study_selector("kivi", {})});
  expect_has(refusal<UsageError>(study), "expected a divisor of value_dim, which is 5");
  study.selectors[1].by_default = true;
  const auto run = prepare(study);
  ASSERT_EQ(run->study.selectors.size(), 1u);
  EXPECT_EQ(run->plan.units.size(), 4u);
  expect_has(join(run->notices, "\n"), "'kivi' is left out: ");
}

TEST_F(PreparedStudyTest, SamplesAndLayersThatAreNotThereAreRefused) {
  Study study = study_with({test::study_selector("exact", {})});
  study.choice.samples = {"third"};
  expect_has(refusal<UsageError>(study), "third");
  study.choice = {.samples = {}, .left_out = {}, .layers = {{9, 9}}, .queries = {}};
  expect_has(refusal<UsageError>(study), "9");
}

/// Two values for each lambda: results of 18 rows of a layer, in two copies.
TEST_F(PreparedStudyTest, ResultsThatTakeMoreMemoryThanAllowedAreRefused) {
  Study study = study_with({test::study_selector("ffd:block=16,sub_block=16", {{5}})});
  RunOptions options;
  options.allowed_memory = 64 << 20;
  EXPECT_NO_THROW(prepare(study, options));
  study.lambdas.assign(1'000'000, 1.0);
  expect_has(refusal<InputError>(study, options), "--allow-memory");
}

TEST_F(PreparedStudyTest, OnlyAnAutomaticDeviceFallsBackToTheCpu) {
  OptionReader reader({.label = "mine", .name = "template", .options = {}});
  const Study study = study_with({test::study_selector("mine", template_info.make(reader), {{10, true}})});
  RunOptions options;
  options.device.kind = DeviceKind::cuda;
  options.device.gpus = {0};
  expect_has(refusal<NoCudaCode>(study, options), "choose --device cpu");
  options.device.automatic = true;
  EXPECT_EQ(prepare(study, options)->options.device.kind, DeviceKind::cpu);
  expect_has(join(notices_, "\n"), "has no CUDA code: leave it out, or choose --device cpu; the CPU is used");
}

}  // namespace
}  // namespace attest
