// Equal shares of ragged work: every item is taken once, in order, and the blocks of an item are known.
#include <gtest/gtest.h>

#include "kernels/decode/baselines/work_shares.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr int kMaxItems = 64;  // of a pair

/// taken [pairs, kMaxItems]: the block that takes the item, and computed: the one that block_of() names.
__global__ void take_kernel(const int* items, int pairs, int minimum, int* taken, int* computed) {
  const auto items_of = [&](int pair) { return items[pair]; };
  const WorkShares shares(items_before(pairs, items_of), static_cast<int>(gridDim.x), minimum);
  for_own_items(shares, static_cast<int>(blockIdx.x), pairs, items_of, [&](int pair, int begin, int end) {
    const int before = items_before(pair, items_of);
    for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += static_cast<int>(blockDim.x)) {
      atomicAdd(taken + pair * kMaxItems + i, static_cast<int>(blockIdx.x) + 1);  // a second taker shows
      computed[pair * kMaxItems + i] = shares.block_of(before + i) + 1;
    }
  });
}

class WorkSharesOnGpu : public OnGpu {};

TEST_F(WorkSharesOnGpu, TakeEveryItemOnce) {
  Gpu gpu;
  Random random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const DeviceArena::Scope scope(gpu.arena);
    std::vector<int> items(static_cast<std::size_t>(1 + random.below(100)));
    for (int& count : items) count = random.below(4) == 0 ? 0 : static_cast<int>(random.below(kMaxItems + 1));
    if (trial == 0) std::fill(items.begin(), items.end(), 0);
    const int total = std::accumulate(items.begin(), items.end(), 0);
    const int blocks = static_cast<int>(1 + random.below(200)), minimum = static_cast<int>(1 + random.below(8));
    const std::vector<int> none(items.size() * kMaxItems, 0);
    int *taken = gpu.upload(none), *computed = gpu.upload(none);
    take_kernel<<<blocks, 64, 0, gpu.stream>>>(gpu.upload(items), static_cast<int>(items.size()), minimum, taken,
                                               computed);
    const std::vector<int> by = gpu.download(taken, none.size());
    EXPECT_EQ(by, gpu.download(computed, none.size()));
    std::vector<int> sizes(static_cast<std::size_t>(blocks) + 2);
    int last = 1;
    for (std::size_t i = 0; i < by.size(); ++i) {
      const bool exists = static_cast<int>(i % kMaxItems) < items[i / kMaxItems];
      ASSERT_EQ(by[i] > 0, exists) << "item " << i;
      if (!exists) continue;
      ASSERT_TRUE(by[i] == last || by[i] == last + 1) << "item " << i;
      last = by[i];
      ++sizes[static_cast<std::size_t>(last)];
    }
    const int used = std::max(1, std::min(blocks, (total + minimum - 1) / minimum));
    EXPECT_EQ(last, used);
    for (int b = 1; b <= used; ++b) EXPECT_LE(std::abs(sizes[b] - total / used), 1);
  }
}

}  // namespace
}  // namespace attest::test
