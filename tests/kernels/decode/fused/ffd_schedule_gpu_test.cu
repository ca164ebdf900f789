// The division of the fused decode's work: every full block and every tail is dealt once, and the thread blocks of a
// pair are known to each of them.
#include <gtest/gtest.h>

#include "kernels/decode/fused/ffd_fused_launch.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr int kMaxItems = 48;  // of a pair: full blocks, and the tail behind the last one

/// taken [pairs, kMaxItems]: the sum of the thread blocks that have the item, counted from 1. first, last [pairs]: what
/// ctas_of() says of the pair, counted from 1. sizes [ctas]: items. limits [ctas]: max_per_cta().
__global__ void deal_kernel(FfdFusedParams p, int* taken, int* first, int* last, int* sizes, int* limits) {
  const int lane = static_cast<int>(threadIdx.x), cta = static_cast<int>(blockIdx.x);
  const FfdItems items = deal_items(p, lane);
  if (cta >= items.ctas) return;
  for (FfdSegment s = first_segment(p, items, cta, lane);; next_segment(p, s)) {
    if (lane == 0) {
      const bool right = s.pair == s.sequence * p.num_kv_heads + s.kv_head && s.length == p.cache.lengths[s.sequence] &&
                         s.full == s.length / kFfdBlock;
      for (int i = 0; right && i < s.blocks; ++i) atomicAdd(taken + s.pair * kMaxItems + s.block(i), cta + 1);
      if (right && s.tail) atomicAdd(taken + s.pair * kMaxItems + s.full, cta + 1);
      const int2 ctas = ctas_of(items, s);
      first[s.pair] = ctas.x + 1, last[s.pair] = ctas.y + 1;
      sizes[cta] += s.blocks + (s.tail ? 1 : 0);
      limits[cta] = items.max_per_cta();
    }
    if (s.items_left == 0) break;
  }
}

class FfdSchedule : public OnGpu {};

void expect_all_dealt_once(const std::vector<int>& lengths, int num_kv_heads, int ctas, Gpu& gpu) {
  const DeviceArena::Scope scope(gpu.arena);
  const int pairs = static_cast<int>(lengths.size()) * num_kv_heads;
  FfdFusedParams p;
  p.cache.lengths = gpu.upload(lengths);
  p.batch = static_cast<int>(lengths.size()), p.num_kv_heads = num_kv_heads;
  p.ctas_per_pair = ctas / pairs;
  p.max_blocks = *std::max_element(lengths.begin(), lengths.end()) / kFfdBlock;
  const std::vector<int> no_items(static_cast<std::size_t>(pairs) * kMaxItems, 0), no_ctas(ctas, 0), no_pairs(pairs, 0);
  int *taken = gpu.upload(no_items), *first = gpu.upload(no_pairs), *last = gpu.upload(no_pairs),
      *sizes = gpu.upload(no_ctas), *limits = gpu.upload(no_ctas);
  deal_kernel<<<ctas, 32, 0, gpu.stream>>>(p, taken, first, last, sizes, limits);
  const std::vector<int> by = gpu.download(taken, no_items.size()), firsts = gpu.download(first, no_pairs.size()),
                         lasts = gpu.download(last, no_pairs.size());
  std::vector<int> expected_sizes(no_ctas.size(), 0);
  for (int pair = 0; pair < pairs; ++pair) {
    const int items = lengths[static_cast<std::size_t>(pair / num_kv_heads)] / kFfdBlock + 1;
    int lowest = ctas + 1, highest = 0;
    for (int i = 0; i < kMaxItems; ++i) {
      const int cta = by[static_cast<std::size_t>(pair * kMaxItems + i)];
      ASSERT_EQ(cta > 0, i < items) << "pair " << pair << ", item " << i;
      ASSERT_LE(cta, ctas) << "pair " << pair << ", item " << i << " is dealt twice";
      if (cta == 0) continue;
      ++expected_sizes[static_cast<std::size_t>(cta - 1)];
      lowest = std::min(lowest, cta), highest = std::max(highest, cta);
    }
    ASSERT_EQ(firsts[static_cast<std::size_t>(pair)], lowest) << "pair " << pair;
    ASSERT_EQ(lasts[static_cast<std::size_t>(pair)], highest) << "pair " << pair;
  }
  const std::vector<int> found_sizes = gpu.download(sizes, no_ctas.size()), most = gpu.download(limits, no_ctas.size());
  // An item that two have adds both numbers, which may be that of a third: then the sizes differ.
  ASSERT_EQ(found_sizes, expected_sizes);
  for (int cta = 0; cta < ctas; ++cta) {
    ASSERT_LE(found_sizes[static_cast<std::size_t>(cta)], most[static_cast<std::size_t>(cta)]) << cta;
    // The host expects so many before it chooses a launch without a barrier.
    if (ctas == ffd_fused_ctas()) {
      ASSERT_LE(found_sizes[static_cast<std::size_t>(cta)], max_ffd_items(p)) << cta;
    }
  }
}

TEST_F(FfdSchedule, DealsEveryItemOnce) {
  Gpu gpu;
  Random random(5);
  for (int trial = 0; trial < 3000; ++trial) {
    const int most = static_cast<int>(random.below(kMaxItems - 1)) * kFfdBlock + kFfdBlock - 1;
    std::vector<int> lengths(static_cast<std::size_t>(1 + random.below(random.below(8) == 0 ? 300 : 20)));
    for (int& length : lengths) length = static_cast<int>(random.below(most + 1));
    if (random.below(2) == 0) std::fill(lengths.begin(), lengths.end(), most);
    const int ctas = random.below(2) == 0 ? ffd_fused_ctas() : static_cast<int>(1 + random.below(kFfdMaxCtas));
    SCOPED_TRACE("trial " + std::to_string(trial));
    expect_all_dealt_once(lengths, static_cast<int>(1 + random.below(9)), ctas, gpu);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace attest::test
