// The stream of units: every unit is studied once, over any number of runs and processes; bad layers; interruption.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "dumps/base/error.h"
#include "tests/analysis/run/stream_study_fixture.h"
#include "tests/message_of.h"

namespace attest {
namespace {

TEST_F(StreamStudyTest, StoresEveryUnitUnderItsName) {
  EchoStudy study;
  run(study);
  EXPECT_EQ(study.layers, (std::vector<int>{0, 2, 5, 3}));
  const LayerResults second = stored(1, 3).value();
  EXPECT_EQ(second.sample, "second");
  EXPECT_EQ(second.layer, 3);
  EXPECT_EQ(second.dump, 0);
  EXPECT_EQ(second.scores[0].values[1], 1);  // number of queries
  ASSERT_EQ(progress_.size(), 4u);
  EXPECT_EQ(progress_.back().finished, 4u);
  EXPECT_EQ(progress_.back().total, 4u);
  EXPECT_EQ(progress_.back().resumed, 0u);
}

TEST_F(StreamStudyTest, GivesTheChosenQueriesOnly) {
  study_.choice.queries = {QueryChoice::Kind::last, 2, {}};
  study_.choice.layers = {{5, 5}};
  EchoStudy study;
  run(study);
  const std::vector<float> echo = stored(0, 5)->scores[0].values;
  const std::vector<std::byte> q = test::small_q(test::small_samples()[0], 5, ElementType::float32);
  float second_query = 0;
  convert_to_float(ElementType::float32, q.data() + 6 * 8 * 4, 1, &second_query);
  EXPECT_EQ(echo[1], 2);
  EXPECT_EQ(echo[2], second_query);
}

TEST_F(StreamStudyTest, ComputesOnlyWhatIsMissing) {
  EchoStudy first;
  run(first);
  folder_.write("partial/unit-0-0-2.bin", "damaged");
  EchoStudy second;
  run(second);
  EXPECT_EQ(second.layers, (std::vector<int>{2}));
  EXPECT_EQ(progress_.back().resumed, 3u);
  EXPECT_TRUE(stored(0, 2));
}

TEST_F(StreamStudyTest, InterruptionKeepsWhatIsFinished) {
  std::atomic<bool> stop{false};
  EchoStudy study;
  study.before = [&] { stop = study.layers.size() == 2; };
  EXPECT_THROW(run(study, {.reading_threads = 2, .stop = &stop}), Interrupted);
  EXPECT_EQ(study.layers.size(), 2u);
  EXPECT_TRUE(stored(0, 2)) << "the unit under way is finished first";
  EXPECT_FALSE(stored(0, 5));
  EchoStudy rest;
  run(rest);
  EXPECT_EQ(rest.layers, (std::vector<int>{5, 3}));
}

TEST_F(StreamStudyTest, InterruptionWithinALayerKeepsTheLayersBefore) {
  EchoStudy study;
  study.before = [&] {
    if (study.layers.size() == 3) throw Interrupted("interrupted");
  };
  EXPECT_THROW(run(study), Interrupted);
  EXPECT_TRUE(stored(0, 2));
  EXPECT_FALSE(stored(0, 5));
  EXPECT_EQ(progress_.back().finished, 2u) << "the message of the program counts them";
}

TEST_F(StreamStudyTest, WhatTheStudyThrowsArrives) {
  EchoStudy study;
  study.before = [] { throw UsageError("of the study"); };
  EXPECT_EQ(message_of<UsageError>([&] { run(study); }), "of the study");
}

TEST_F(StreamStudyTest, AfterAnErrorWhatIsFinishedIsStoredAndCounted) {
  EchoStudy study;
  study.before = [&] {
    if (study.layers.size() == 3) throw DeviceError("of the device");
  };
  EXPECT_EQ(message_of<DeviceError>([&] { run(study); }), "of the device");
  ASSERT_FALSE(progress_.empty());
  EXPECT_EQ(progress_.back().finished, 2u);
  EXPECT_TRUE(stored(0, 0));
  EXPECT_TRUE(stored(0, 2));
}

TEST_F(BadLayerTest, IsRefusedWithItsPlace) {
  EchoStudy study;
  EXPECT_EQ(message_of<InputError>([&] { run(study); }),
            path_ +
                ": sample 'first', layer 5, k, head 1: NaN, first at token 37; the same command with --skip-bad-layers "
                "--resume leaves this layer out");
  EXPECT_EQ(study.layers, (std::vector<int>{0, 2})) << "the layers before it are kept";
  EXPECT_TRUE(stored(0, 2));
}

TEST_F(BadLayerTest, IsLeftOutAndSaid) {
  EchoStudy study;
  study_.skip_bad_layers = true;
  run(study);
  EXPECT_EQ(study.layers, (std::vector<int>{0, 2, 3}));
  EXPECT_FALSE(stored(0, 5)->done);
  EXPECT_EQ(notices_,
            (std::vector<std::string>{path_ + ": sample 'first', layer 5, k, head 1: NaN, first at token 37; the layer "
                                              "is left out"}));
}

TEST_F(BadLayerTest, ThatWasLeftOutIsNotFinishedForAStudyThatLeavesNoneOut) {
  EchoStudy study, strict, again;
  study_.skip_bad_layers = true;
  run(study);
  study_.skip_bad_layers = false;
  EXPECT_NE(message_of<InputError>([&] { run(strict); }), "");
  EXPECT_TRUE(strict.layers.empty()) << "the others are finished";
  study_.skip_bad_layers = true;
  run(again);
  EXPECT_TRUE(again.layers.empty());
}

/// Finds a defect in layers 2 and 5 of the first sample, and collects a layer only once the next one is submitted, like
/// the study on a GPU.
class DefectStudy : public EchoStudy {
 public:
  LayerResults run(const AttentionLayer& layer) override {
    LayerResults results = EchoStudy::run(layer);
    if (layer.layer == 2 || layer.layer == 5) results.defect = "layer " + std::to_string(layer.layer) + ": overflows";
    return results;
  }
  int max_submitted() const override { return 2; }
};

TEST_F(StreamStudyTest, ALayerThatCannotBeStudiedIsRefusedWithItsPlace) {
  DefectStudy study;
  EXPECT_EQ(message_of<InputError>([&] { run(study); }),
            path_ +
                ": sample 'first', layer 2: overflows; the same command with --skip-bad-layers --resume leaves this "
                "layer out");
  EXPECT_TRUE(stored(0, 0)) << "the layers before it are kept";
  EXPECT_FALSE(stored(0, 2));
  EXPECT_EQ(progress_.back().finished, 1u);
}

TEST_F(StreamStudyTest, ALayerThatCannotBeStudiedIsLeftOutAndSaid) {
  DefectStudy study;
  study_.skip_bad_layers = true;
  run(study);
  EXPECT_EQ(study.layers, (std::vector<int>{0, 2, 5, 3}));
  EXPECT_TRUE(stored(0, 0)->done);
  EXPECT_FALSE(stored(0, 2)->done);
  EXPECT_FALSE(stored(0, 5)->done);
  EXPECT_TRUE(stored(1, 3)->done);
  EXPECT_EQ(notices_,
            (std::vector<std::string>{path_ + ": sample 'first', layer 2: overflows; the layer is left out",
                                      path_ + ": sample 'first', layer 5: overflows; the layer is left out"}));
}

/// For each of two studies, which take two units at most before their first is finished.
std::function<void()> until_both_are_busy(std::atomic<int>& busy) {
  return [&busy, first = true]() mutable {
    if (std::exchange(first, false)) ++busy;
    while (busy < 2) std::this_thread::yield();
  };
}

TEST_F(StreamStudyTest, TwoAtOnceShareTheUnits) {
  EchoStudy one, other;
  std::atomic<int> busy = 0;
  for (EchoStudy* study : {&one, &other}) study->before = until_both_are_busy(busy);
  observer_ = {.started = [](const std::string&) {},
               .progress = [](const StudyProgress&) {},
               .notice = [](const std::string&) {}};
  std::jthread second([&] { run(other); });
  run(one);
  second.join();
  EXPECT_EQ(one.layers.size() + other.layers.size(), 4u) << "no unit twice";
  EXPECT_GE(one.layers.size(), 1u);
  EXPECT_GE(other.layers.size(), 1u);
  for (const int layer : {0, 2, 5}) EXPECT_TRUE(stored(0, layer));
}

/// The layers of all studies, ascending.
std::vector<int> layers_of(std::span<const EchoStudy> studies) {
  std::vector<int> all;
  for (const EchoStudy& study : studies) all.insert(all.end(), study.layers.begin(), study.layers.end());
  std::ranges::sort(all);
  return all;
}

TEST_F(StreamStudyTest, SeveralDevicesTakeUnitsFromOneQueue) {
  for (std::size_t count = 1; count <= 6; ++count) {
    std::vector<EchoStudy> studies(count);
    progress_.clear();
    std::vector<UnitKey> passed_on;
    std::mutex mutex;
    PartialResults partial(folder_.file("p" + std::to_string(count)), PartialResults::Start::fresh, kStudy);
    run_on(studies, partial, {.sink = [&](const UnitKey& unit, const LayerResults&, UnitOrigin) {
             const std::lock_guard lock(mutex);
             passed_on.push_back(unit);
           }});
    EXPECT_EQ(layers_of(studies), (std::vector<int>{0, 2, 3, 5})) << "each once";
    std::ranges::sort(passed_on);
    EXPECT_EQ(passed_on, (std::vector<UnitKey>{{0, 0, 0}, {0, 0, 2}, {0, 0, 5}, {0, 1, 3}}));
    ASSERT_EQ(progress_.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(progress_[i].finished, i + 1) << "one count for all";
  }
}

TEST_F(StreamStudyTest, TwoDevicesWorkAtTheSameTime) {
  std::vector<EchoStudy> studies(2);
  std::atomic<int> busy = 0;
  for (EchoStudy& study : studies) study.before = until_both_are_busy(busy);
  PartialResults partial(folder_.file("partial"), PartialResults::Start::fresh, kStudy);
  run_on(studies, partial);
  EXPECT_EQ(layers_of(studies), (std::vector<int>{0, 2, 3, 5}));
}

TEST_F(StreamStudyTest, TheFirstErrorOfADeviceStopsTheOthers) {
  std::vector<EchoStudy> studies(2);
  std::atomic<int> failed = 0;
  studies[1].before = [&] {
    failed = 1;
    throw DeviceError("of the device");
  };
  studies[0].before = [&] {
    while (failed == 0) std::this_thread::yield();
  };
  PartialResults partial(folder_.file("partial"), PartialResults::Start::fresh, kStudy);
  EXPECT_EQ(message_of<DeviceError>([&] { run_on(studies, partial); }), "echo: of the device");
  EXPECT_LT(studies[0].layers.size(), 4u);
  ASSERT_FALSE(studies[0].layers.empty());
  EXPECT_TRUE(stored(0, studies[0].layers[0])) << "what the others have begun is stored";
}

TEST_F(StreamStudyTest, AnInterruptionEndsAllDevices) {
  std::vector<EchoStudy> studies(3);
  std::atomic<bool> stop{false};
  for (EchoStudy& study : studies) study.before = [&] { stop = true; };
  PartialResults partial(folder_.file("partial"), PartialResults::Start::fresh, kStudy);
  EXPECT_THROW(run_on(studies, partial, {.stop = &stop}), Interrupted);
  const std::size_t finished = progress_.empty() ? 0 : progress_.back().finished;
  EXPECT_EQ(finished, layers_of(studies).size());
}

TEST_F(StreamStudyTest, WaitsForAUnitThatAnotherHas) {
  auto others = std::make_unique<PartialResults>(folder_.file("partial"), PartialResults::Start::resume, kStudy);
  ASSERT_TRUE(others->try_lock({0, 0, 2}));
  EchoStudy study;
  std::atomic<int> begun = 0;
  study.before = [&] { ++begun; };
  std::jthread dying([&] {
    while (begun < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    others.reset();  // without storing the unit
  });
  run(study);
  EXPECT_EQ(study.layers, (std::vector<int>{0, 5, 3, 2}));
}

TEST_F(StreamStudyTest, EndsWhenAnotherProcessHasFinishedTheStudy) {
  EchoStudy study;
  study.before = [&] { PartialResults::discard(folder_.file("partial")); };
  EXPECT_THROW(run(study), OutputError) << "its own unit has no place any more";
  EchoStudy late;
  PartialResults partial(folder_.file("other"), PartialResults::Start::resume, kStudy);
  PartialResults::discard(folder_.file("other"));
  run(late, partial);
  EXPECT_TRUE(late.layers.empty());
}

/// Another thread may end it from then on.
TEST_F(StreamStudyTest, ALayerStudyIsNotAskedAfterItHasComputed) {
  struct GivenBack : EchoStudy {
    std::string device() const override { return given_back ? "given back" : "echo"; }
    std::atomic<bool> given_back = false;
  };
  std::array<GivenBack, 2> studies;
  LayerStudy* const all[] = {studies.data(), &studies[1]};
  std::atomic<int> computed = 0;
  StreamOptions options;
  options.storing_threads = 4;  // room for all units
  options.computed = [&](LayerStudy& study) {
    dynamic_cast<GivenBack&>(study).given_back = true;
    ++computed;
  };
  options.sink = [&](const UnitKey&, const LayerResults&, UnitOrigin) {
    for (int tries = 0; computed < 2 && tries < 10000; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw DeviceError("of the device");
  };
  PartialResults partial(folder_.file("partial"), PartialResults::Start::fresh, kStudy);
  EXPECT_EQ(message_of<DeviceError>([&] { run(all, partial, options); }), "echo: of the device");
  EXPECT_EQ(computed, 2);
}

/// The caller keeps what is finished, by the number that was reported.
TEST_F(StreamStudyTest, AfterAnErrorInStoringWhatIsStoredIsReported) {
  const UnitSink failing = [](const UnitKey& unit, const LayerResults&, UnitOrigin) {
    if (unit.layer == 3) throw OutputError("disk full");
    if (unit.layer == 5) std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the study is done meanwhile
  };
  EchoStudy study;
  EXPECT_EQ(message_of<OutputError>([&] { run(study, {.sink = failing}); }), "disk full");
  ASSERT_FALSE(progress_.empty());
  EXPECT_EQ(progress_.back().finished, 3u);
}

}  // namespace
}  // namespace attest
