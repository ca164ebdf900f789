// Layers that arrive on the device piece by piece: the bytes, failures, the room, and the bits of their study.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "analysis/cuda/cuda_layer_store.h"
#include "analysis/layer/layer_study.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/base/parallel_for.h"
#include "dumps/kv_source.h"
#include "dumps/synthetic/dump.h"
#include "tests/analysis/cuda/comparison.h"
#include "tests/analysis/cuda/cuda_study_cases.h"
#include "tests/dumps/memory_store.h"
#include "tests/dumps/scratch_folder.h"

namespace attest::cuda_test {
namespace {

std::byte byte_at(KvTensor tensor, std::size_t at) {
  return static_cast<std::byte>((at * 2654435761u >> 16) + (tensor == KvTensor::k ? 0 : 91));
}

std::vector<std::byte> on_host(const std::byte* device, std::size_t bytes) {
  std::vector<std::byte> copy(bytes);
  EXPECT_EQ(cudaMemcpy(copy.data(), device, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  return copy;
}

struct Stores {
  std::shared_ptr<CudaPieceRing> ring = std::make_shared<CudaPieceRing>(0);
  std::shared_ptr<CudaStoreRoom> room = std::make_shared<CudaStoreRoom>();
  CudaLayerStore make() const { return {0, ring, room}; }
};

TEST(CudaLayerStore, HoldsWhatManyThreadsPut) {
  SKIP_WITHOUT_GPU();
  constexpr std::size_t kBytes[] = {700'000'003, 300'000'001}, kPiece = 1'500'000;
  Stores stores;
  stores.room->max_per_store = kBytes[0] + kBytes[1];
  CudaLayerStore store = stores.make();
  for (int round = 0; round < 2; ++round) {  // again into the same memory
    ASSERT_TRUE(store.reserve(kBytes[0], kBytes[1]));
    for (const KvTensor tensor : {KvTensor::k, KvTensor::v}) {
      const std::size_t bytes = kBytes[static_cast<std::size_t>(tensor)];
      parallel_for(32, (bytes - 1) / kPiece + 1, [&](int, std::size_t i) {  // more threads than pieces of the ring
        const std::size_t begin = i * kPiece, size = std::min(kPiece, bytes - begin);
        store.put(tensor, begin, size, [&](std::span<std::byte> to) {
          ASSERT_EQ(to.size(), size);
          for (std::size_t at = 0; at < size; ++at)
            to[at] = byte_at(tensor, begin + at + static_cast<std::size_t>(round));
        });
      });
    }
    stores.ring->synchronize();
    for (const KvTensor tensor : {KvTensor::k, KvTensor::v}) {
      const std::size_t bytes = kBytes[static_cast<std::size_t>(tensor)];
      const std::vector<std::byte> found = on_host(tensor == KvTensor::k ? store.keys() : store.values(), bytes);
      std::size_t wrong = 0;
      for (std::size_t at = 0; at < bytes; ++at)
        wrong += found[at] != byte_at(tensor, at + static_cast<std::size_t>(round)) ? 1 : 0;
      EXPECT_EQ(wrong, 0u);
    }
  }
  const StageTime time = stores.ring->time();
  EXPECT_EQ(time.bytes, 2.0 * (kBytes[0] + kBytes[1])) << "every copy counts once";
  EXPECT_GT(time.seconds, 0);
}

TEST(CudaLayerStore, APieceThatCannotBeReadGoesBack) {
  SKIP_WITHOUT_GPU();
  Stores stores;
  stores.room->max_per_store = 1 << 20;
  CudaLayerStore store = stores.make();
  ASSERT_TRUE(store.reserve(1000, 1000));
  for (std::size_t i = 0; i < 3 * CudaPieceRing::kPieces; ++i)
    EXPECT_THROW(store.put(KvTensor::k, 0, 1000, [](std::span<std::byte>) { throw InputError("of the file"); }),
                 InputError);
  store.put(KvTensor::k, 0, 1000, [](std::span<std::byte> to) { std::ranges::fill(to, std::byte{7}); });
  stores.ring->synchronize();
  EXPECT_EQ(on_host(store.keys(), 1000), std::vector<std::byte>(1000, std::byte{7}));
}

TEST(CudaLayerStore, PiecesThatAreHeldAreFilledAndCopiedLater) {
  SKIP_WITHOUT_GPU();
  Stores stores;
  stores.room->max_per_store = 1 << 20;
  CudaLayerStore store = stores.make();
  ASSERT_TRUE(store.reserve(1000, 1000));
  std::atomic<int> filled = 0;
  const auto put = [&](int value) {
    store.put(KvTensor::k, 0, 1000, [&](std::span<std::byte> to) {
      std::ranges::fill(to, std::byte(value));
      filled = value;
    });
  };
  put(1);
  stores.ring->synchronize();
  std::jthread later;
  {
    const CudaPieceRing::Hold hold(stores.ring.get());
    later = std::jthread(put, 2);
    while (filled != 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(on_host(store.keys(), 1000), std::vector<std::byte>(1000, std::byte{1}));
  }
  later.join();
  stores.ring->synchronize();
  EXPECT_EQ(on_host(store.keys(), 1000), std::vector<std::byte>(1000, std::byte{2}));
}

TEST(CudaLayerStore, TakesNoMoreThanItsRoom) {
  SKIP_WITHOUT_GPU();
  Stores stores;
  stores.room->max_per_store = 3000;
  {
    CudaLayerStore store = stores.make(), other = stores.make();
    EXPECT_FALSE(store.reserve(2000, 1001));
    EXPECT_EQ(stores.room->taken, 0u);
    EXPECT_TRUE(store.reserve(2000, 1000));
    EXPECT_TRUE(other.reserve(100, 50));
    EXPECT_EQ(stores.room->taken, 3150u);
  }
  EXPECT_EQ(stores.room->taken, 0u);
}

/// A store of 3 MiB of keys and 1 MiB of values, which asks for the hashes of two blocks.
void expect_findings(CudaLayerStore& store, bool finite) {
  constexpr std::size_t kKeys = 3 << 20, kValues = 1 << 20;
  const std::vector<TensorBlock> blocks{{KvTensor::k, 8, 7}, {KvTensor::v, 0, 9}};
  ASSERT_TRUE(store.reserve(kKeys, kValues));
  store.begin_inspection(ElementType::bfloat16, blocks);
  std::vector<std::byte> k(kKeys), v(kValues);
  const auto fill = [](KvTensor tensor, std::vector<std::byte>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = byte_at(tensor, i) & std::byte{0x3F};
  };
  fill(KvTensor::k, k);
  fill(KvTensor::v, v);
  if (!finite) v[4001] = std::byte{0xFF}, v[4000] = std::byte{0x80};
  for (std::size_t at = 0; at < kKeys; at += kValues)
    store.put(KvTensor::k, at, kValues,
              [&](std::span<std::byte> to) { std::ranges::copy(std::span(k).subspan(at, kValues), to.begin()); });
  store.put(KvTensor::v, 0, kValues, [&](std::span<std::byte> to) { std::ranges::copy(v, to.begin()); });
  const CudaStream stream;
  StageClock clock;
  store.make_ready({0, kKeys}, {0, kValues / 2}, clock, stream);
  store.make_ready({kKeys, 0}, {kValues / 2, kValues / 2}, clock, stream);
  store.hash(clock);
  const StoreFindings found = store.findings();
  EXPECT_EQ(found.finite, finite);
  EXPECT_EQ(found.hashes.at(0), hash_of(std::span(k).subspan(8, kFileBlock)));
  EXPECT_TRUE(!finite || found.hashes.at(1) == hash_of(std::span(v)));
  stream.synchronize();
  if (!finite) v[4001] = v[4000] = std::byte{0};
  EXPECT_EQ(on_host(store.values(), kValues), v);
}

TEST(CudaLayerStore, InspectsWhatItGets) {
  SKIP_WITHOUT_GPU();
  Stores stores;
  stores.room->max_per_store = 4 << 20;
  CudaLayerStore store = stores.make();
  EXPECT_TRUE(store.inspects());
  for (const bool finite : {true, false, true}) expect_findings(store, finite);
}

/// Reads a layer into `stored.store` while it is studied, as LayerReader does; the first layer is rehearsed. `hashed`:
/// blocks to be hashed.
LayerResults study_arriving(LayerStudy& study, const DumpReader& dump, int layer, AttentionLayer& stored,
                            std::vector<TensorBlock> hashed = {}) {
  const LayerInfo& info = dump.layer_info(0, layer);
  const auto heads = static_cast<std::size_t>(dump.info().shape.num_kv_heads);
  EXPECT_TRUE(stored.store->reserve(info.k.bytes, info.v.bytes));
  stored.store->arrival.begin(static_cast<int>(heads), info.k.bytes / heads, info.v.bytes / heads);
  if (!hashed.empty()) stored.store->begin_inspection(info.element_type, std::move(hashed));
  EXPECT_TRUE(dump.read_queries(0, layer, stored));
  const bool rehearsed = layer == dump.info().samples[0].layers.front();
  std::jthread reading;
  const auto begin = [&] {
    reading = std::jthread([&] {
      if (!rehearsed) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_TRUE(dump.read_keys_and_values(0, layer, *stored.store, 2));
      stored.store->arrival.end();
    });
  };
  if (rehearsed)
    study.rehearse(stored, begin);
  else
    begin();
  return study.run(stored);
}

void expect_bits_of_host_memory(const DumpReader& dump, const Study& study) {
  const std::unique_ptr<LayerStudy> one = make_cuda_layer_study(study, 0), other = make_cuda_layer_study(study, 0);
  AttentionLayer host(one->layer_memory()), stored(other->layer_memory());
  stored.store = other->make_layer_store();
  for (const int layer : dump.info().samples[0].layers) {
    ASSERT_TRUE(dump.read_layer(0, layer, host, 8));
    const LayerResults got = study_arriving(*other, dump, layer, stored);
    expect_same_bits(one->run(host), got);
  }
}

TEST(CudaLayerStore, AShortLayerIsCollectedAfterItsHashes) {
  SKIP_WITHOUT_GPU();
  const ScratchFolder folder;
  const std::string path = folder.file("d.h5");
  write_synthetic_dump({.shape = {32, 8, 128, 128}, .num_tokens = 6000, .num_queries = 1}, path, false, 8);
  const DumpReader dump(path);
  const int layer = dump.info().samples[0].layers.front();
  const LayerBlocks blocks = dump.layer_blocks(0, layer);
  ASSERT_GT(blocks.whole.size(), 10u);
  const Study study = study_of({"exact"});
  const std::unique_ptr<LayerStudy> cuda = make_cuda_layer_study(study, 0);
  AttentionLayer stored(cuda->layer_memory());
  stored.store = cuda->make_layer_store();
  for (int round = 1; round <= 20; ++round) {
    study_arriving(*cuda, dump, layer, stored, blocks.whole);
    const std::vector<StageTime> times = cuda->stage_times();
    const auto hashes = std::ranges::find(times, "content hashes", &StageTime::name);
    ASSERT_NE(hashes, times.end());
    EXPECT_EQ(hashes->bytes, static_cast<double>(round * blocks.whole.size() * kFileBlock));
    EXPECT_TRUE(stored.store->findings().finite);
  }
}

TEST(CudaLayerStore, AStudyHasTheBitsOfOneFromHostMemory) {
  SKIP_WITHOUT_GPU();
  const ScratchFolder folder;
  const Case c{"", bf16, 32, 8, 128, 128, 6000, {5999}};
  for (const int queries : {3, 160}) {  // more than a MiB of queries are copied among the keys and values
    const std::string path = folder.file(std::to_string(queries) + ".h5");
    write_synthetic_dump({.shape = {32, 8, 128, 128}, .num_tokens = 6000, .num_queries = queries}, path, false, 8);
    const DumpReader dump(path);
    for (const Study& study : {study_of({"ffd", "quest", "exact", "topk"}), kv_cache_study(c)})
      expect_bits_of_host_memory(dump, study);
  }
}

/// A layer of 1.3 GB, of which 1 GiB is studied while the rest arrives.
class LargeLayer {
 public:
  static constexpr int kHeads = 64, kTokens = 40000, kDim = 128, kFirst = 53;  // 53 heads have 1 GiB
  static constexpr std::size_t kHeadBytes = std::size_t{kTokens} * kDim * 2;

  explicit LargeLayer(LayerStudy& study) {
    layer.shape = {kHeads, kHeads, kDim, kDim};
    layer.element_type = bf16;
    layer.softmax_scale = 1 / std::sqrt(128.0);
    layer.num_tokens = kTokens;
    layer.query_positions = {kTokens - 1};
    layer.q.resize(kHeads * kDim * 2);
    fill(KvTensor::k, 1, {layer.q.data(), layer.q.size()});
    layer.store = study.make_layer_store();
    layer.in_store = true;
    EXPECT_TRUE(layer.store->reserve(kHeads * kHeadBytes, kHeads * kHeadBytes));
    layer.store->arrival.begin(kHeads, kHeadBytes, kHeadBytes);
  }
  void arrive(std::size_t first, std::size_t end) {
    const std::size_t begin = first * kHeadBytes, bytes = (end - first) * kHeadBytes;
    parallel_for(8, 2 * ((bytes - 1) / LayerStore::kPieceBytes + 1), [&](int, std::size_t i) {
      const KvTensor tensor = i % 2 == 0 ? KvTensor::k : KvTensor::v;
      const std::size_t at = i / 2 * LayerStore::kPieceBytes, size = std::min(LayerStore::kPieceBytes, bytes - at);
      layer.store->put(tensor, begin + at, size, [&](std::span<std::byte> to) { fill(tensor, begin + at, to); });
      layer.store->arrival.add(tensor, begin + at, size);
    });
  }

  AttentionLayer layer;

 private:
  /// bfloat16 numbers from 0.5 to 2, of both signs.
  static void fill(KvTensor tensor, std::size_t at, std::span<std::byte> to) {
    for (std::size_t i = 0; i + 1 < to.size(); i += 2) {
      const std::uint64_t bits = (at + i + (tensor == KvTensor::k ? 0 : 1)) * 0x9E3779B97F4A7C15u >> 32;
      to[i] = static_cast<std::byte>(bits);
      to[i + 1] = static_cast<std::byte>((bits & 0x8000) >> 8 | 0x3F);
    }
  }
};

TEST(CudaLayerStore, HeadsThatHaveArrivedAreStudiedFirst) {
  SKIP_WITHOUT_GPU();
  const Study study = study_of({"ffd", "quest:dense_layers=0", "kivi", "twilight:dense_layers=0", "topk"});
  const std::unique_ptr<LayerStudy> cuda = make_cuda_layer_study(study, 0);
  LargeLayer at_once(*cuda), cut(*cuda), ends(*cuda);
  at_once.arrive(0, LargeLayer::kHeads);
  at_once.layer.store->arrival.end();
  const LayerResults expected = cuda->run(at_once.layer);
  EXPECT_EQ(expected.defect, "");

  cut.arrive(0, LargeLayer::kFirst + 2);
  {
    const std::jthread others([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      cut.arrive(LargeLayer::kFirst + 2, LargeLayer::kHeads);
      cut.layer.store->arrival.end();
    });
    expect_same_bits(expected, cuda->run(cut.layer));
  }

  // Where no more come, the results of the first heads are there, and nothing waits for the others.
  ends.arrive(0, LargeLayer::kFirst + 2);
  ends.layer.store->arrival.end();
  const LayerResults some = cuda->run(ends.layer);
  const std::vector<float>& found = some.scores.front().values;
  ASSERT_EQ(found.size(), std::size_t{LargeLayer::kHeads});
  for (std::size_t h = 0; h < found.size(); ++h) {
    if (h < LargeLayer::kFirst + 2)
      EXPECT_EQ(found[h], expected.scores.front().values[h]);
    else
      EXPECT_TRUE(std::isnan(found[h])) << h;
  }
}

/// A layer that does not fit is read from its source by KV heads, without host memory for it.
TEST(CudaLayerStore, ALayerFromItsSourceHasTheBitsOfOneFromHostMemory) {
  SKIP_WITHOUT_GPU();
  const ScratchFolder folder;
  write_synthetic_dump({.shape = {32, 8, 128, 128}, .num_tokens = 6000, .num_queries = 3}, folder.file("d.h5"), false,
                       8);
  const DumpReader dump(folder.file("d.h5"));
  struct Source : KvSource {
    Source(const DumpReader& of, int number) : dump(of), layer(number) {}
    void read(int first, int count, const Put& put) const override {
      reads.push_back(count);
      dump.read_heads(0, layer, first, count, put, 4);
    }
    const DumpReader& dump;
    const int layer;
    mutable std::vector<int> reads;
  };
  const Study study = study_of({"ffd", "quest:dense_layers=0", "kivi", "exact", "topk"});
  const std::unique_ptr<LayerStudy> whole = make_cuda_layer_study(study, 0),
                                    small = make_cuda_layer_study(study, 0, {.bytes = 48u << 20});
  AttentionLayer host(whole->layer_memory()), cut(small->layer_memory());
  cut.store = small->make_layer_store();
  for (const int number : dump.info().samples[0].layers) {
    ASSERT_TRUE(dump.read_layer(0, number, host, 8));
    EXPECT_FALSE(cut.store->reserve(host.k.size(), host.v.size()));
    ASSERT_TRUE(dump.read_queries(0, number, cut));
    cut.in_store = false;
    const auto source = std::make_shared<Source>(dump, number);
    cut.source = source;
    expect_same_bits(whole->run(host), small->run(cut));
    EXPECT_GT(source->reads.size(), 1u) << "by several ranges of heads";
  }
}

/// Interrupted while it waits for heads that do not come.
TEST(CudaLayerStore, AWaitForHeadsIsInterrupted) {
  SKIP_WITHOUT_GPU();
  const Study study = study_of({"exact"});
  const std::unique_ptr<LayerStudy> cuda = make_cuda_layer_study(study, 0);
  AttentionLayer layer = make_layer({"", bf16, 4, 2, 64, 64, 500, {499}});
  layer.store = cuda->make_layer_store();
  ASSERT_TRUE(layer.store->reserve(layer.k.size(), layer.v.size()));
  layer.store->arrival.begin(2, layer.k.size() / 2, layer.v.size() / 2);
  layer.in_store = true;
  std::atomic<bool> stop = false;
  cuda->end_when(&stop);
  const std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop = true;
  });
  EXPECT_THROW(cuda->run(layer), Interrupted);
}

}  // namespace
}  // namespace attest::cuda_test
