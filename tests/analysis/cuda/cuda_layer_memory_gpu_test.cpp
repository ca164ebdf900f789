// Shares of the device memory: slots for inputs, stores, and scratch memory of one or several streams.
#include <gtest/gtest.h>

#include "analysis/cuda/cuda_layer_memory.h"
#include "analysis/cuda/cuda_layer_plan.h"
#include "dumps/base/error.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr std::size_t kQuery = 2 * 8 * 64 * 2, kKey = 1024 * 64 * 2, kValue = 1024 * 32 * 2, kBoth = kKey + kValue;

AttentionLayer four_heads() {
  AttentionLayer layer;
  layer.shape = {8, 4, 64, 32};
  layer.element_type = ElementType::bfloat16;
  layer.query_positions = {100, 1023};
  layer.num_tokens = 1024;
  return layer;
}

class CudaLayerMemoryTest : public OnGpu {
 protected:
  const AttentionLayer layer_ = four_heads();
};

TEST_F(CudaLayerMemoryTest, BytesOfALayer) {
  const LayerBytes bytes(layer_);
  EXPECT_EQ(bytes.q, kQuery);
  EXPECT_EQ(bytes.k, kKey);
  EXPECT_EQ(bytes.v, kValue);
}

TEST_F(CudaLayerMemoryTest, SlotsTakeHalfWithTheStores) {
  CudaLayerMemory memory(12 * kBoth, false);
  EXPECT_EQ(memory.stores()->max_per_store, 12 * kBoth / 16) << "four take a quarter";
  EXPECT_EQ(memory.heads_per_slot(layer_), 3);
  memory.stores()->taken = 2 * kBoth;
  EXPECT_EQ(memory.heads_per_slot(layer_), 2);
  memory.stores()->taken = 12 * kBoth;
  EXPECT_EQ(memory.heads_per_slot(layer_), 1);
  EXPECT_EQ(CudaLayerMemory(100 * kBoth, false).heads_per_slot(layer_), 4);
}

TEST_F(CudaLayerMemoryTest, ZerosCountAndAreAtMostA64th) {
  const CudaStream stream;
  CudaLayerMemory with(64 * kBoth, false), without(64 * kBoth, false);
  EXPECT_EQ(with.zeros(kBoth + 1, stream), nullptr);
  const std::byte* const zeros = with.zeros(kBoth, stream);
  ASSERT_NE(zeros, nullptr);
  std::vector<std::byte> on_host(kBoth, std::byte{1});
  ATTEST_CUDA(cudaMemcpyAsync(on_host.data(), zeros, kBoth, cudaMemcpyDeviceToHost, stream));
  stream.synchronize();
  EXPECT_EQ(on_host, std::vector<std::byte>(kBoth));
  with.size_for(layer_, 1, 0, true, stream);
  without.size_for(layer_, 1, 0, true, stream);
  EXPECT_EQ(with.scratch(0).limit() + kBoth, without.scratch(0).limit());
}

TEST_F(CudaLayerMemoryTest, ScratchIsTheRest) {
  const CudaStream stream;
  CudaLayerMemory memory(12 * kBoth, true);
  memory.size_for(layer_, 3, 0, true, stream);
  InputSlot &one = memory.next_slot(), &other = memory.next_slot();
  EXPECT_NE(&one, &other);
  EXPECT_EQ(&memory.next_slot(), &one);
  for (const InputSlot* slot : {&one, &other}) {
    EXPECT_EQ(slot->q.size(), kQuery);
    EXPECT_EQ(slot->k.size(), 3 * kKey);
    EXPECT_EQ(slot->v.size(), 3 * kValue);
  }
  const std::size_t rest = 12 * kBoth - 2 * (kQuery + 3 * kBoth);
  const std::size_t part = rest / (CudaLayerMemory::kChunks + CudaLayerMemory::kSelectorStreams);
  EXPECT_EQ(memory.selector_scratch().size(), CudaLayerMemory::kSelectorStreams);
  for (const DeviceArena& arena : memory.selector_scratch()) EXPECT_EQ(arena.limit(), part);
  for (const std::size_t chunk : {0, 1}) EXPECT_EQ(memory.scratch(chunk).limit(), part);
  EXPECT_NE(&memory.scratch(0), &memory.scratch(1));
  EXPECT_EQ(&memory.scratch(0), &memory.scratch(CudaLayerMemory::kChunks));
  EXPECT_EQ(memory.max_elements(layer_), part / CudaLayerMemory::kBytesSideBySide)
      << "exact attention and selectors are apart";
  memory.limit_elements(77);
  EXPECT_EQ(memory.max_elements(layer_), 77);
  memory.stop_side_by_side();
  EXPECT_FALSE(memory.side_by_side());
  EXPECT_EQ(memory.scratch(0).limit(), rest);
  EXPECT_EQ(&memory.scratch(1), &memory.scratch(0));
  memory.size_for(layer_, 1, 5 * kBoth, true, stream);  // the slots stay as large as they were
  EXPECT_EQ(memory.scratch(0).limit(), rest - 5 * kBoth);
}

TEST_F(CudaLayerMemoryTest, MuchMemoryMakesNoLargerChunks) {
  const CudaStream stream;
  CudaLayerMemory memory(std::size_t{64} << 30, true);
  memory.size_for(layer_, 1, 0, true, stream);
  EXPECT_GT(memory.scratch(0).limit() / CudaLayerMemory::kBytesSideBySide, CudaLayerMemory::kMostElements);
  EXPECT_EQ(memory.max_elements(layer_), CudaLayerMemory::kMostElements);
}

TEST_F(CudaLayerMemoryTest, TwoSlotsMustFit) {
  const CudaStream stream;
  CudaLayerMemory memory(2 * (kQuery + kBoth), false);
  memory.size_for(layer_, 1, 0, true, stream);
  EXPECT_EQ(memory.scratch(0).limit(), 0);
  EXPECT_THROW(memory.size_for(layer_, 1, 1, true, stream), DeviceError);
}

}  // namespace
}  // namespace attest::test
