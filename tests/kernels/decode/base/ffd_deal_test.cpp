// Deals of thread blocks: everyone has a pair, and the most work of one is as little as any deal makes it.
#include "kernels/decode/base/ffd_deal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/cases.h"

namespace attest::test {
namespace {

/// CTAs of each pair, as the deal's shares say; -1 where they contradict each other.
std::vector<int> counts_of(const FfdDeal& deal, int pairs) {
  std::vector<int> counts(static_cast<std::size_t>(pairs), 0);
  for (int cta = 0; cta < deal.ctas; ++cta) ++counts[deal.of_cta[cta].pair];
  int first = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    int& count = counts[static_cast<std::size_t>(pair)];
    const int last = first + count - 1;
    for (int cta = first; cta <= last; ++cta) {
      const FfdDeal::Share share = deal.of_cta[cta];
      if (share.pair != pair || share.first != first || share.last != last) count = -1;
    }
    first = last + 1;
  }
  return counts;
}

/// In scans of a block: the CTA that has most, of all pairs. A kept block takes 5.6 scans more.
double most_work(const std::vector<int>& counts, const std::vector<float>& shares, int blocks) {
  double most = 0;
  for (std::size_t pair = 0; pair < counts.size(); ++pair) {
    int own = 0;  // items of the pair's first CTA, which has every counts[pair]-th
    for (int item = 0; item <= blocks; item += counts[pair]) ++own;
    most = std::max(most, own + 5.6 * own * static_cast<double>(shares[pair]));
  }
  return most;
}

/// The least of all deals.
double least_most_work(const std::vector<float>& shares, int blocks, int ctas, std::vector<int> counts = {}) {
  if (counts.size() == shares.size()) return most_work(counts, shares, blocks);
  double least = 1e30;
  const int others = static_cast<int>(shares.size() - counts.size()) - 1;
  for (int count = 1; count <= ctas - others; ++count) {
    counts.push_back(count);
    least = std::min(least, least_most_work(shares, blocks, ctas - count, counts));
    counts.pop_back();
  }
  return least;
}

TEST(FfdDeal, OfCounts) {
  const std::vector<int> counts{2, 1, 5};
  const FfdDeal deal = deal_of(counts);
  EXPECT_EQ(deal.ctas, 8);
  EXPECT_EQ(deal.min_per_pair, 1);
  EXPECT_EQ(counts_of(deal, 3), counts);
}

TEST(FfdDeal, HoldsAsManyAsThereCanBe) {
  const std::vector<int> counts(kFfdMaxCtas, 1);
  EXPECT_EQ(counts_of(deal_of(counts), kFfdMaxCtas), counts);
  EXPECT_EQ(deal_of(std::vector<int>{kFfdMaxCtas}).of_cta[0].last, kFfdMaxCtas - 1);
}

TEST(FfdDeal, NoDealMakesTheMostWorkLess) {
  Random random(3);
  int dealt = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const int pairs = 1 + static_cast<int>(random.below(4)), ctas = pairs + static_cast<int>(random.below(20));
    const int blocks = 1 + static_cast<int>(random.below(300));
    std::vector<float> shares;
    for (int i = 0; i < pairs; ++i) shares.push_back(static_cast<float>(random.below(101)) / 100);
    const FfdDeal deal = deal_by_shares(shares, blocks, ctas);
    const double least = least_most_work(shares, blocks, ctas);
    const std::vector<int> even(static_cast<std::size_t>(pairs), ctas / pairs);
    const double saved = most_work(even, shares, blocks) - least;
    if (deal.ctas == 0) {
      EXPECT_LT(saved, 14.001) << trial;
      continue;
    }
    ++dealt;
    EXPECT_LE(deal.ctas, ctas);
    EXPECT_GT(saved, 13.999) << trial;
    const std::vector<int> counts = counts_of(deal, pairs);
    ASSERT_EQ(std::ranges::count(counts, -1), 0) << trial;
    EXPECT_EQ(deal.min_per_pair, *std::ranges::min_element(counts));
    EXPECT_NEAR(most_work(counts, shares, blocks), least, 1e-6 * least) << trial;
  }
  EXPECT_GT(dealt, 50);
}

TEST(FfdDeal, NoneWhereItSavesLittleOrPairsAreMore) {
  EXPECT_EQ(deal_by_shares({}, 100, 132).ctas, 0);
  EXPECT_EQ(deal_by_shares(std::vector<float>(8, 1.0f), 2048, 128).ctas, 0);
  EXPECT_EQ(deal_by_shares(std::vector<float>{0.04f, 0.05f, 0.06f, 0.05f}, 256, 132).ctas, 0);
  std::vector<float> many(133, 0.0f);
  many[0] = 1;
  EXPECT_EQ(deal_by_shares(many, 2048, 132).ctas, 0);
  many.pop_back();
  EXPECT_EQ(deal_by_shares(many, 2048, 132).ctas, 0);  // one for each: there is no other deal
  many.resize(66);
  EXPECT_EQ(counts_of(deal_by_shares(many, 2048, 132), 66)[0], 7);
}

}  // namespace
}  // namespace attest::test
