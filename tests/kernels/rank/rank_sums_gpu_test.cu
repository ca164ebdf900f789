// Spearman's rho from sums over centred ranks, of one thread block and of several.
#include <gtest/gtest.h>

#include "kernels/rank/rank_sums.cuh"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

__global__ void rho_kernel(const int* own, const int* exact, int count, float* out) {
  __shared__ long long shared[32];
  RankSums sums;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) sums.add(own[i], exact[i]);
  sums.reduce(shared);
  out[threadIdx.x] = sums.rho();
}

__global__ void add_kernel(const int* own, const int* exact, int count, RankSums* all) {
  __shared__ long long shared[32];
  RankSums sums;
  const int step = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step)
    sums.add(own[i], exact[i]);
  sums.reduce(shared);
  if (threadIdx.x == 0) sums.add_to(*all);
}
__global__ void rho_of_sums_kernel(const RankSums* all, float* out) { *out = all->rho(); }

std::vector<float> rho_of_every_thread(const std::vector<int>& own, const std::vector<int>& exact, int threads) {
  Gpu gpu;
  float* out = gpu.arena.take<float>(static_cast<std::size_t>(threads));
  rho_kernel<<<1, threads, 0, gpu.stream>>>(gpu.upload(own), gpu.upload(exact), static_cast<int>(own.size()), out);
  return gpu.download(out, static_cast<std::size_t>(threads));
}

class RankSumsCuda : public OnGpuWith<int> {};

TEST_P(RankSumsCuda, GiveRhoToEveryThread) {
  Random random(3);
  const auto ranks = [&random](const ValueKind& kind, std::size_t count) {
    return plain_centred_ranks(values_of(kind, count, random));
  };
  for (std::size_t count : {2u, 31u, 33u, 1000u, 5000u})
    for (const ValueKind& kind : {kValueKinds[0], kValueKinds[4], kValueKinds[5]}) {
      const std::vector<int> own = ranks(kind, count), exact = ranks(kValueKinds[0], count);
      const float expected = plain_rho(own, exact);
      for (float found : rho_of_every_thread(own, exact, GetParam()))
        if (std::isnan(expected))
          ASSERT_TRUE(std::isnan(found)) << kind.name << ", " << count << " items";
        else
          ASSERT_EQ(found, expected) << kind.name << ", " << count << " items";
    }
}

TEST_P(RankSumsCuda, KnowPerfectOrderAndNone) {
  std::vector<int> ascending, descending;
  for (int i = 0; i < 777; ++i) {
    ascending.push_back(2 * i - 776);
    descending.push_back(776 - 2 * i);
  }
  EXPECT_EQ(rho_of_every_thread(ascending, ascending, GetParam())[0], 1);
  EXPECT_EQ(rho_of_every_thread(ascending, descending, GetParam())[0], -1);
  const std::vector<int> constant(777, 0);
  EXPECT_TRUE(std::isnan(rho_of_every_thread(ascending, constant, GetParam())[0]));
  EXPECT_TRUE(std::isnan(rho_of_every_thread(constant, ascending, GetParam())[0]));
}

// Ranks of a million tokens: products exceed 2^32. Sums exceed 2^53, where doubles would round.
TEST_P(RankSumsCuda, AddUpIn64Bits) {
  constexpr int kTokens = 1 << 20;
  std::vector<int> own, exact;
  for (int i = 0; i < kTokens; ++i) {
    own.push_back(2 * i - (kTokens - 1));
    exact.push_back(2 * (i ^ 1) - (kTokens - 1));  // swaps neighbours
  }
  EXPECT_EQ(rho_of_every_thread(own, exact, GetParam())[0], plain_rho(own, exact));
}

TEST_P(RankSumsCuda, OfSeveralBlocksAddUp) {
  Random random(5);
  const std::vector<int> own = plain_centred_ranks(values_of(kValueKinds[4], 20000, random)),
                         exact = plain_centred_ranks(values_of(kValueKinds[0], 20000, random));
  std::vector<int> reversed = exact;
  for (int& rank : reversed) rank = -rank;  // sums below zero
  for (const std::vector<int>& other : {exact, reversed}) {
    Gpu gpu;
    RankSums* all = gpu.arena.take<RankSums>(1);
    ASSERT_EQ(cudaMemsetAsync(all, 0, sizeof(RankSums), gpu.stream), cudaSuccess);
    add_kernel<<<7, GetParam(), 0, gpu.stream>>>(gpu.upload(own), gpu.upload(other), 20000, all);
    float* out = gpu.arena.take<float>(1);
    rho_of_sums_kernel<<<1, 1, 0, gpu.stream>>>(all, out);
    EXPECT_EQ(gpu.download(out, 1)[0], plain_rho(own, other));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, RankSumsCuda, testing::Values(32, 96, 512, 1024));

}  // namespace
}  // namespace attest::test
