// Layers that go to the stores of a study while they are read, and layers that are too large for them.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "analysis/run/input_hashes.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/format/value_check.h"
#include "dumps/kv_source.h"
#include "dumps/synthetic/dump.h"
#include "tests/analysis/run/stream_study_fixture.h"
#include "tests/dumps/memory_store.h"
#include "tests/message_of.h"

namespace attest {
namespace {

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
  void rehearse(const AttentionLayer& layer, const std::function<void()>& begin_arrival) override {
    EXPECT_TRUE(layers.empty()) << "before anything is studied";
    EXPECT_GT(layer.num_queries(), 0);
    EXPECT_EQ(layer.store->arrival.wait(1, std::chrono::milliseconds(0)).heads, 0) << "before anything arrives";
    begin_arrival();
    while (!layer.store->arrival.wait(1, std::chrono::milliseconds(1)).ended) {  // it arrives meanwhile
    }
    EXPECT_TRUE(layers.empty());
    rehearsed.push_back(layer.layer);
  }

  std::vector<int> rehearsed;
  std::vector<bool> complete;  ///< of each layer in a store, whether all heads have come
  std::map<int, std::pair<std::vector<std::byte>, std::vector<std::byte>>> keys_and_values;

 private:
  const std::size_t room_;
};

TEST_F(StreamStudyTest, FillsTheStoresOfLayers) {
  StoreStudy study;
  run(study);
  EXPECT_EQ(study.layers, (std::vector<int>{0, 2, 5, 3}));
  EXPECT_EQ(study.rehearsed, std::vector<int>{0});
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

/// A store that checks and hashes what it has.
class InspectingStore final : public test::MemoryStore {
 public:
  bool inspects() const override { return true; }
  void begin_inspection(ElementType type, std::vector<TensorBlock> blocks) override {
    type_ = type;
    blocks_ = std::move(blocks);
  }
  StoreFindings findings() override {
    StoreFindings found{.finite = all_finite(type_, k) && all_finite(type_, v), .hashes = {}};
    for (const TensorBlock& block : blocks_)
      found.hashes.push_back(hash_of(std::span(block.tensor == KvTensor::k ? k : v).subspan(block.begin, kFileBlock)));
    return found;
  }

 private:
  ElementType type_ = ElementType::float32;
  std::vector<TensorBlock> blocks_;
};

class InspectingStudy final : public StoreStudy {
 public:
  std::shared_ptr<LayerStore> make_layer_store() override { return std::make_shared<InspectingStore>(); }
};

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
  EXPECT_TRUE(study.rehearsed.empty()) << "the first layer has no store, and may be studied already";
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

TEST_F(StreamStudyTest, AStoreThatInspectsFindsTheSameHashes) {
  std::filesystem::remove(path_);
  write_synthetic_dump({.num_tokens = 16384}, path_, false, 2);
  std::vector<std::vector<BlockHash>> of_layer;
  std::vector<std::string> of_file;
  for (const bool inspects : {false, true}) {
    StoreStudy host(0);
    InspectingStudy inspecting;
    LayerStudy& study = inspects ? static_cast<LayerStudy&>(inspecting) : host;
    InputHashes hashes({input_status(path_)}, 1);
    const std::string name = inspects ? "inspecting" : "host";
    PartialResults partial(folder_.file(name), PartialResults::Start::fresh, kStudy);
    run(study, partial, {.hash_blocks = true, .hashes = &hashes});
    of_layer.push_back(stored(0, 1, name)->input_blocks);
    of_file.push_back(hashes.wait(std::chrono::seconds(60))->at(0));
  }
  EXPECT_GE(of_layer[0].size(), 14u);
  EXPECT_EQ(of_layer[0], of_layer[1]);
  EXPECT_EQ(of_file[0], of_file[1]);
  EXPECT_EQ(of_file[0], content_hashes({path_}, 2)[0]);
}

class BadLayerInStoreTest : public BadLayerTest {
 protected:
  /// Runs a study in which it is left out.
  void expect_left_out(LayerStudy& study) {
    study_.skip_bad_layers = true;
    run(study, {.hash_blocks = true});
    EXPECT_TRUE(stored(0, 2)->done);
    EXPECT_FALSE(stored(0, 5)->done);
    EXPECT_TRUE(stored(1, 3)->done);
    EXPECT_EQ(notices_,
              (std::vector<std::string>{path_ + ": sample 'first', layer 5, k, head 1: NaN, first at token 37; the "
                                                "layer is left out"}));
  }
};

TEST_F(BadLayerTest, IsRefusedWithItsPlaceByAStoreThatInspects) {
  InspectingStudy study;
  expect_says(message_of<InputError>([&] { run(study); }),
              ": sample 'first', layer 5, k, head 1: NaN, first at token 37; ");
  EXPECT_EQ(study.complete, std::vector<bool>(study.complete.size(), true)) << "nobody has looked before";
  EXPECT_TRUE(stored(0, 0)) << "the layers before it are kept";
  EXPECT_TRUE(stored(0, 2));
  EXPECT_FALSE(stored(0, 5));
}

TEST_F(BadLayerInStoreTest, IsLeftOutWhereTheStoreInspects) {
  InspectingStudy study;
  expect_left_out(study);
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

TEST_F(BadLayerInStoreTest, IsLeftOutWhereTheReaderChecks) {
  StoreStudy study;
  expect_left_out(study);
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

}  // namespace
}  // namespace attest
