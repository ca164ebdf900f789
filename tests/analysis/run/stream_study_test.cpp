// The stream of units: every unit is studied once, over any number of runs and processes; bad layers; interruption.
#include "analysis/run/stream_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "analysis/run/unit_queue.h"
#include "dumps/base/error.h"
#include "dumps/kv_source.h"
#include "dumps/synthetic/dump.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/memory_store.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

/// Returns number, query count and first query value of each layer as a metric, and records the layers.
class EchoStudy : public LayerStudy {
 public:
  LayerResults run(const AttentionLayer& layer) override {
    layers.push_back(layer.layer);
    if (before) before();
    LayerResults results;
    results.layer = layer.layer;
    float first_q = 0;
    convert_to_float(layer.element_type, layer.q.data(), 1, &first_q);
    results.scores = {{"echo",
                       MetricAxes::query_head,
                       {static_cast<float>(layer.layer), static_cast<float>(layer.num_queries()), first_q}}};
    return results;
  }
  std::string device() const override { return "echo"; }

  std::vector<int> layers;
  std::function<void()> before;
};

constexpr const char* kStudy = "{}";

void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

class StreamStudyTest : public ::testing::Test {
 protected:
  StreamStudyTest() { test::write_small_dump(path_); }

  /// Studies layers 0, 2 and 5 of the first sample and layer 3 of the second.
  void run(std::span<LayerStudy* const> studies, PartialResults& partial, const StreamOptions& options) {
    std::vector<DumpReader> dumps;
    dumps.emplace_back(path_);
    const DumpInfo* infos[] = {&dumps[0].info()};
    Study study = study_;  // a copy, because two concurrent runs both plan
    const StudyPlan plan = plan_study(infos, study);
    UnitQueue queue(partial, plan, study.skip_bad_layers);
    stream_study(study, plan, dumps, studies, queue, options, observer_);
  }
  void run(LayerStudy& layer_study, PartialResults& partial, const StreamOptions& options = {}) {
    LayerStudy* const studies[] = {&layer_study};
    run(studies, partial, options);
  }
  void run_on(std::vector<EchoStudy>& devices, PartialResults& partial, const StreamOptions& options = {}) {
    std::vector<LayerStudy*> all;
    for (EchoStudy& device : devices) all.push_back(&device);
    run(all, partial, options);
  }
  void run(LayerStudy& layer_study, const StreamOptions& options = {}) {
    PartialResults partial(folder_.file("partial"), PartialResults::Start::resume, kStudy);
    run(layer_study, partial, options);
  }

  std::optional<LayerResults> stored(std::size_t sample, int layer, const std::string& name = "partial") const {
    return PartialResults(folder_.file(name), PartialResults::Start::resume, kStudy).load({0, sample, layer});
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("dump.h5");
  Study study_;
  std::vector<StudyProgress> progress_;
  std::vector<std::string> notices_;
  StudyObserver observer_{.started = [](const std::string&) {},
                          .progress = [this](const StudyProgress& p) { progress_.push_back(p); },
                          .notice = [this](const std::string& text) { notices_.push_back(text); }};
};

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

/// Keeps layers in stores, like the study on a GPU: submit() returns once the keys and values have arrived.
class StoreStudy : public EchoStudy {
 public:
  explicit StoreStudy(std::size_t room = std::size_t{1} << 20) : room_(room) {}

  std::shared_ptr<LayerStore> make_layer_store() override { return std::make_shared<test::MemoryStore>(room_); }
  void submit(const AttentionLayer& layer) override {
    if (layer.in_store) {
      EXPECT_EQ(layer.k.size() + layer.v.size(), 0u);
      const auto& store = dynamic_cast<const test::MemoryStore&>(*layer.store);
      KvArrival::State state;
      while (!state.ended) state = store.arrival.wait(3, std::chrono::milliseconds(1));
      complete.push_back(state.heads == layer.shape.num_kv_heads);
      if (complete.back()) keys_and_values[layer.layer] = {store.k, store.v};
    }
    EchoStudy::submit(layer);
  }
  int max_submitted() const override { return 2; }

  std::vector<bool> complete;  ///< of each layer in a store, whether all heads have come
  std::map<int, std::pair<std::vector<std::byte>, std::vector<std::byte>>> keys_and_values;

 private:
  const std::size_t room_;
};

TEST_F(StreamStudyTest, FillsTheStoresOfLayers) {
  StoreStudy study;
  run(study);
  EXPECT_EQ(study.layers, (std::vector<int>{0, 2, 5, 3}));
  EXPECT_EQ(study.complete, std::vector<bool>(4, true));
  const std::vector<SampleInfo> samples = test::small_samples();
  for (const int layer : {0, 2, 5, 3}) {
    const SampleInfo& sample = samples[layer == 3 ? 1 : 0];
    const ElementType type = test::small_type(layer);
    EXPECT_EQ(study.keys_and_values[layer].first, test::small_k(sample, layer, type)) << layer;
    EXPECT_EQ(study.keys_and_values[layer].second, test::small_v(sample, layer, type)) << layer;
  }
  EXPECT_EQ(stored(0, 5)->scores[0].values[1], 3) << "queries";
}

/// Reads layers that are too large for their store from their source, one head after the other.
class SourceStudy : public StoreStudy {
 public:
  explicit SourceStudy(std::size_t room) : StoreStudy(room) {}
  void submit(const AttentionLayer& layer) override {
    if (layer.source) {
      EXPECT_EQ(layer.k.size() + layer.v.size(), 0u);
      auto& [k, v] = keys_and_values[layer.layer];
      for (int head = 0; head < layer.shape.num_kv_heads; ++head) {
        const std::size_t before[] = {k.size(), v.size()};
        const auto tokens = static_cast<std::size_t>(layer.num_tokens);
        k.resize(k.size() + tokens * static_cast<std::size_t>(layer.shape.head_dim) * size_of(layer.element_type));
        v.resize(v.size() + tokens * static_cast<std::size_t>(layer.shape.value_dim) * size_of(layer.element_type));
        std::mutex mutex;
        layer.source->read(head, 1,
                           [&](KvTensor tensor, std::size_t offset, std::size_t bytes, const LayerStore::Fill& fill) {
                             const std::lock_guard lock(mutex);
                             fill(std::span(tensor == KvTensor::k ? k : v)
                                      .subspan(before[static_cast<std::size_t>(tensor)] + offset, bytes));
                           });
      }
      ++from_source;
    } else if (!layer.in_store) {
      ++in_host_memory;
    }
    StoreStudy::submit(layer);
  }

  int from_source = 0, in_host_memory = 0;
};

TEST_F(StreamStudyTest, LayersThatAreTooLargeForAStoreComeFromTheirSource) {
  SourceStudy study(2 * 23 * (8 + 5) * 2);  // of the second sample alone
  run(study);
  EXPECT_EQ(study.layers, (std::vector<int>{0, 2, 5, 3}));
  EXPECT_EQ(study.from_source, 3);
  EXPECT_EQ(study.in_host_memory, 0);
  EXPECT_EQ(study.complete, std::vector<bool>{true});
  const std::vector<SampleInfo> samples = test::small_samples();
  for (const int layer : {0, 2, 5}) {
    EXPECT_EQ(study.keys_and_values[layer].first, test::small_k(samples[0], layer, test::small_type(layer))) << layer;
    EXPECT_EQ(study.keys_and_values[layer].second, test::small_v(samples[0], layer, test::small_type(layer))) << layer;
  }
}

TEST_F(StreamStudyTest, CompressedLayersThatAreTooLargeForAStoreAreReadIntoHostMemory) {
  std::filesystem::remove(path_);
  test::write_small_dump(path_, {.gzip_level = 6});
  SourceStudy study(0);
  run(study);
  EXPECT_EQ(study.layers, (std::vector<int>{0, 2, 5, 3}));
  EXPECT_EQ(study.in_host_memory, 4);
}

TEST_F(StreamStudyTest, HashesTheSameBlocksOnTheWayToAStore) {
  std::filesystem::remove(path_);
  write_synthetic_dump({.num_tokens = 16384}, path_, false, 2);  // 8 MiB of keys in a layer
  std::vector<std::vector<BlockHash>> found;
  for (const std::size_t room : {std::size_t{0}, std::size_t{1} << 30}) {
    SourceStudy study(room);
    const std::string name = "p" + std::to_string(room);
    PartialResults partial(folder_.file(name), PartialResults::Start::fresh, kStudy);
    run(study, partial, {.hash_blocks = true});
    EXPECT_EQ(study.complete.size(), room == 0 ? 0u : 2u);
    EXPECT_EQ(study.from_source, room == 0 ? 2 : 0);
    found.push_back(stored(0, 1, name)->input_blocks);
  }
  EXPECT_GE(found[0].size(), 14u);
  EXPECT_EQ(found[0], found[1]);
}

class BadLayerTest : public StreamStudyTest {
 protected:
  BadLayerTest() {
    const test::Edit edit(path_);
    std::vector<float> k(2 * 40 * 8, 1.0f);
    k[(1 * 40 + 37) * 8 + 5] = std::numeric_limits<float>::quiet_NaN();
    edit.dataset("/samples/first/layers/5/k", H5T_IEEE_F32LE, {2, 40, 8}, k.data());
  }
};

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

TEST_F(BadLayerTest, IsRefusedWithItsPlaceBeforeItsSourceIsRead) {
  SourceStudy study(0);
  expect_says(message_of<InputError>([&] { run(study); }),
              ": sample 'first', layer 5, k, head 1: NaN, first at token 37; ");
  EXPECT_EQ(study.from_source, 2);
  EXPECT_TRUE(stored(0, 2));
}

TEST_F(BadLayerTest, IsRefusedWithItsPlaceWhereverLayersAreKept) {
  StoreStudy study;
  EXPECT_EQ(message_of<InputError>([&] { run(study); }),
            path_ +
                ": sample 'first', layer 5, k, head 1: NaN, first at token 37; the same command with --skip-bad-layers "
                "--resume leaves this layer out");
  EXPECT_TRUE(stored(0, 0)) << "the layers before it are kept";
  EXPECT_TRUE(stored(0, 2));
  EXPECT_FALSE(stored(0, 5));
  for (const auto& [layer, unused] : study.keys_and_values) EXPECT_NE(layer, 5) << "its heads do not all arrive";
}

TEST_F(BadLayerTest, IsLeftOutOfAStudyThatKeepsLayersInStores) {
  StoreStudy study;
  study_.skip_bad_layers = true;
  run(study);
  EXPECT_TRUE(stored(0, 2)->done);
  EXPECT_FALSE(stored(0, 5)->done);
  EXPECT_TRUE(stored(1, 3)->done);
  EXPECT_EQ(notices_,
            (std::vector<std::string>{path_ + ": sample 'first', layer 5, k, head 1: NaN, first at token 37; the layer "
                                              "is left out"}));
}

/// A bad query that is studied is told before bad keys; one that is left out is not.
TEST_F(BadLayerTest, QueriesAreCheckedBeforeALayerInAStoreIsStudied) {
  std::vector<float> q(3 * 6 * 8, 1.0f);
  q[(1 * 6 + 4) * 8 + 2] = std::numeric_limits<float>::infinity();
  const auto write = [&](int layer) {
    test::Edit(path_).dataset("/samples/first/layers/" + std::to_string(layer) + "/q", H5T_IEEE_F32LE, {3, 6, 8},
                              q.data());
  };
  write(5);
  study_.choice.layers = {{5, 5}};
  StoreStudy all, last;
  expect_says(message_of<InputError>([&] { run(all); }),
              ": sample 'first', layer 5, q, head 4: infinity, first at token 17; ");
  EXPECT_TRUE(all.complete.empty()) << "it is not submitted";
  study_.choice.queries = {QueryChoice::Kind::last, 1, {}};
  expect_says(message_of<InputError>([&] { run(last); }),
              ": sample 'first', layer 5, k, head 1: NaN, first at token 37; ");
}

TEST_F(StreamStudyTest, ABadQueryThatIsLeftOutDoesNotMatterToALayerInAStore) {
  std::vector<float> q(3 * 6 * 8, 1.0f);
  q[(1 * 6 + 4) * 8 + 2] = std::numeric_limits<float>::infinity();
  test::Edit(path_).dataset("/samples/first/layers/5/q", H5T_IEEE_F32LE, {3, 6, 8}, q.data());
  study_.choice.layers = {{5, 5}};
  study_.choice.queries = {QueryChoice::Kind::last, 1, {}};
  StoreStudy study;
  run(study);
  EXPECT_EQ(study.complete, std::vector<bool>{true});
  EXPECT_TRUE(stored(0, 5)->done);
}

TEST_F(StreamStudyTest, AnErrorWhileAStoreIsFilledArrives) {
  std::filesystem::remove(path_);
  test::write_small_dump(path_, {.gzip_level = 6});
  std::string bytes = bytes_of_file(path_);
  const std::size_t last = bytes.rfind("\x78\x9c");  // begins a stream of the last layer's v
  ASSERT_NE(last, std::string::npos);
  bytes.replace(last, 2, 2, '\0');
  folder_.write("dump.h5", bytes);
  StoreStudy study;
  const std::string message = message_of<InputError>([&] { run(study); });
  expect_says(message, "/samples/second/layers/3/v: its chunk at ");
  expect_says(message, "gzip stream cannot be inflated");
  for (const int layer : {0, 2}) EXPECT_TRUE(stored(0, layer)) << "the layers before it are kept";
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

TEST_F(StreamStudyTest, TwoAtOnceShareTheUnits) {
  EchoStudy one, other;
  // Each computes slowly, so that both are busy for the whole time.
  one.before = other.before = [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
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
  for (EchoStudy& study : studies)
    study.before = [&busy, first = true]() mutable {
      if (std::exchange(first, false)) ++busy;
      while (busy < 2) std::this_thread::yield();  // a device takes two units at most before its first is finished
    };
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
  std::jthread dying([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
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

}  // namespace
}  // namespace attest
