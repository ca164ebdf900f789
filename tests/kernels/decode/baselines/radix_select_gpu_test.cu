// The weighted radix select against sorting: counts and large integer weights, ties, gaps.
#include <gtest/gtest.h>

#include "kernels/decode/baselines/radix_select.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr int kThreads = 1024;
using Weight = unsigned long long;

/// The weight of a key: equal keys have equal weights, some weigh next to nothing.
__host__ __device__ Weight weight_of(std::uint32_t key) { return key % 7 == 0 ? 1 : (Weight{key} << 8) + 1; }

template <class Sum, bool kWeighted>
__global__ void __launch_bounds__(kThreads)
    select_kernel(const std::uint32_t* keys, int count, Sum target, std::uint8_t* kept) {
  __shared__ RadixSelectShared<Sum> shared;
  const auto weight = [&](int i) { return kWeighted ? static_cast<Sum>(weight_of(keys[i])) : Sum{1}; };
  const SelectedCut cut = radix_select<kThreads>(
      count, [&](int i) { return keys[i]; }, weight, target, shared);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) kept[i] = cut.keeps(keys[i], i) ? 1 : 0;
}

template <class Sum, bool kWeighted>
void expect_head_of_sorted(const std::vector<std::uint32_t>& keys, double share, Gpu& gpu) {
  const DeviceArena::Scope scope(gpu.arena);
  std::vector<int> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] > keys[b]; });
  const auto weight = [&](int i) { return kWeighted ? weight_of(keys[i]) : Weight{1}; };
  Weight total = 0;
  for (int i : order) total += weight(i);
  const Weight target = std::max<Weight>(1, static_cast<Weight>(share * static_cast<double>(total)));
  std::vector<std::uint8_t> expected(keys.size(), 0);
  Weight sum = 0;
  for (int i : order) {
    if (sum >= target) break;
    expected[i] = 1;
    sum += weight(i);
  }
  auto* kept = gpu.arena.take<std::uint8_t>(keys.size());
  select_kernel<Sum, kWeighted>
      <<<1, kThreads, 0, gpu.stream>>>(gpu.upload(keys), static_cast<int>(keys.size()), static_cast<Sum>(target), kept);
  ASSERT_EQ(gpu.download(kept, keys.size()), expected) << keys.size() << " keys, share " << share;
}

class RadixSelect : public OnGpu {};

TEST_F(RadixSelect, IsTheHeadOfTheSortedRow) {
  Gpu gpu;
  Random random(4);
  for (std::size_t count : {1, 2, 31, 33, 1000, 1024, 1025, 5000})
    for (std::int64_t distinct : {1, 3, 100, 3000, 1 << 24})
      for (std::int64_t step : {1, 255}) {
        std::vector<std::uint32_t> keys(count);
        for (std::uint32_t& key : keys)
          key = static_cast<std::uint32_t>(random.below(distinct) * step + (random.below(50) == 0 ? 1 : 0));
        if (step == 255 && count > 100) keys[count / 2] = 0, keys[count / 3] = ~0u;  // the whole range of digits
        for (double share : {0.0, 0.001, 0.2, 0.5, 0.97, 1.0}) {
          expect_head_of_sorted<unsigned, false>(keys, share, gpu);
          expect_head_of_sorted<Weight, true>(keys, std::min(share, 1 - 1e-9), gpu);
          if (HasFatalFailure()) return;
        }
      }
}

}  // namespace
}  // namespace attest::test
