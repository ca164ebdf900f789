// Calibration samples are left out of the study, and each is passed to its selector once per layer of the study.
#include "analysis/study/calibration.h"

#include <gtest/gtest.h>

#include <limits>

#include "dumps/base/error.h"
#include "tests/analysis/studies.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

/// Records the layers that it is calibrated with.
class Learner final : public Selector {
 public:
  explicit Learner(std::vector<std::string> samples) : samples_(std::move(samples)) {}
  SettingKind setting_kind() const override { return SettingKind::none; }
  bool has_estimate() const override { return false; }
  std::vector<std::string> calibration_samples() const override { return samples_; }
  void calibrate(const AttentionLayer& layer) override { seen.emplace_back(layer.num_tokens, layer.layer); }
  void select(const KvHead&, const RankedScores&, std::span<const AscendingGrid>, Selection&) const override {}

  std::vector<std::pair<std::int64_t, int>> seen;  ///< tokens of the sample, number of the layer

 private:
  std::vector<std::string> samples_;
};

using Seen = std::vector<std::pair<std::int64_t, int>>;

/// Sample "first" has 40 tokens and the layers 0, 2 and 5; "second" has 23 tokens and the layers 0 and 2.
class CalibrationTest : public ::testing::Test {
 protected:
  CalibrationTest() {
    std::vector<SampleInfo> samples = test::small_samples();
    samples[1].layers = {0, 2};
    test::write_small_dump(path_, {}, 1000, samples);
    study_ = study_of({study_selector("exact", {}), study_selector("learner", learner_, {})});
    study_.dumps.resize(1);
  }

  /// Leaves the calibration samples out, plans the study, and calibrates.
  void plan_and_calibrate() {
    leave_out_calibration_samples(study_);
    const DumpReader dump(path_);
    const DumpInfo* infos[] = {&dump.info()};
    calibrate(study_, plan_study(infos, study_), dump);
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("d.h5");
  std::shared_ptr<Learner> learner_ = std::make_shared<Learner>(std::vector<std::string>{"first"});
  Study study_;
};

TEST_F(CalibrationTest, ShowsTheSampleInTheLayersOfTheStudyAndLeavesItOut) {
  plan_and_calibrate();
  EXPECT_EQ(learner_->seen, (Seen{{40, 0}, {40, 2}}));
  ASSERT_EQ(study_.dumps[0].samples.size(), 1u);
  EXPECT_EQ(study_.dumps[0].samples[0].name, "second");
}

TEST_F(CalibrationTest, LayersThatAreNotChosenAreNotLearnt) {
  study_.choice.layers = {{1, kOpenEnd}};
  plan_and_calibrate();
  EXPECT_EQ(learner_->seen, (Seen{{40, 2}}));
}

TEST_F(CalibrationTest, EndsBetweenLayersWhenToldTo) {
  const DumpReader dump(path_);
  const DumpInfo* infos[] = {&dump.info()};
  leave_out_calibration_samples(study_);
  const StudyPlan plan = plan_study(infos, study_);
  const std::atomic<bool> stop{true};
  EXPECT_THROW(calibrate(study_, plan, dump, &stop), Interrupted);
  EXPECT_TRUE(learner_->seen.empty());
}

TEST_F(CalibrationTest, EveryLearnerSeesItsOwnSamples) {
  const auto other = std::make_shared<Learner>(std::vector<std::string>{"second"});
  study_.selectors.push_back(study_selector("other", other, {}));
  leave_out_calibration_samples(study_);
  EXPECT_EQ(study_.choice.left_out, (std::vector<std::string>{"first", "second"}));
  study_.choice.left_out = {"first"};  // so that one sample is left to study
  const DumpReader dump(path_);
  const DumpInfo* infos[] = {&dump.info()};
  calibrate(study_, plan_study(infos, study_), dump);
  EXPECT_EQ(learner_->seen, (Seen{{40, 0}, {40, 2}}));
  EXPECT_EQ(other->seen, (Seen{{23, 0}, {23, 2}}));
}

TEST_F(CalibrationTest, RefusesChosenCalibrationSamples) {
  study_.choice.samples = {"second", "first"};
  EXPECT_EQ(message_of<UsageError>([&] { leave_out_calibration_samples(study_); }),
            "selector 'learner' learns from sample 'first', so --samples must not ask for it");
}

TEST_F(CalibrationTest, OneDumpOnly) {
  study_.dumps.resize(2);
  EXPECT_EQ(message_of<UsageError>([&] { leave_out_calibration_samples(study_); }),
            "selector 'learner' learns from sample 'first', expected one dump, given 2");
  study_.selectors.pop_back();
  EXPECT_NO_THROW(leave_out_calibration_samples(study_)) << "where nobody learns there may be many";
}

TEST_F(CalibrationTest, BadValuesAreRefusedWithTheirPlace) {
  {
    const test::Edit edit(path_);
    std::vector<float> k(2 * 40 * 8, 1.0f);
    k[(1 * 40 + 37) * 8 + 5] = std::numeric_limits<float>::infinity();
    edit.dataset("/samples/first/layers/2/k", H5T_IEEE_F32LE, {2, 40, 8}, k.data());
    std::vector<float> q(3 * 6 * 8, 1.0f), v(2 * 40 * 5, 1.0f);
    edit.dataset("/samples/first/layers/2/q", H5T_IEEE_F32LE, {3, 6, 8}, q.data());
    edit.dataset("/samples/first/layers/2/v", H5T_IEEE_F32LE, {2, 40, 5}, v.data());
  }
  EXPECT_EQ(
      message_of<InputError>([&] { plan_and_calibrate(); }),
      path_ +
          ": sample 'first', which selector 'learner' learns from, layer 2, k, head 1: infinity, first at token 37");
}

}  // namespace
}  // namespace attest::test
