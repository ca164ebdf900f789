// RandomStream against the published generator, and the distribution of its numbers.
#include "dumps/synthetic/counter_random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace attest {
namespace {

TEST(CounterRandom, split_mix_is_the_published_one) {
  // The reference C program (prng.di.unimi.it/splitmix64.c) seeded with 1234567.
  RandomStream random(1234567);
  for (const std::uint64_t expected :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u, 16408922859458223821u})
    EXPECT_EQ(random.bits(), expected);
}

TEST(CounterRandom, different_words_give_different_keys) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t a = 0; a < 50; ++a)
    for (std::uint64_t b = 0; b < 50; ++b) keys.insert(random_key({a, b}));
  for (std::uint64_t a = 0; a < 50; ++a) keys.insert(random_key({a}));
  EXPECT_EQ(keys.size(), 50u * 50 + 50);
  EXPECT_NE(random_key({0}), random_key({0, 0}));
}

TEST(CounterRandom, noise_is_sums_of_four_bytes) {
  EXPECT_EQ(noise_pair(0).first, -510);
  EXPECT_EQ(noise_pair(~std::uint64_t{0}).second, 510);
  const NoisePair pair = noise_pair(0x01'02'03'04'10'20'30'40u);
  EXPECT_EQ(pair.first, 0x10 + 0x20 + 0x30 + 0x40 - 510);
  EXPECT_EQ(pair.second, 1 + 2 + 3 + 4 - 510);
}

TEST(CounterRandom, noise_has_the_moments_of_a_normal_distribution) {
  RandomStream random(random_key({99}));
  constexpr int n = 500'000;
  double sum = 0, squares = 0, fourth = 0, products = 0;
  for (int i = 0; i < n; ++i) {
    const NoisePair pair = noise_pair(random.bits());
    products += double(pair.first) * pair.second;
    for (const double x : {double(pair.first), double(pair.second)}) {
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
    }
  }
  const double variance = squares / (2 * n);
  // The tolerances are five standard errors.
  EXPECT_NEAR(sum / (2 * n), 0, 5 * kNoiseDeviation / std::sqrt(2.0 * n));
  EXPECT_NEAR(std::sqrt(variance) / kNoiseDeviation, 1, 5 / std::sqrt(4.0 * n));
  EXPECT_NEAR(products / n / variance, 0, 5 / std::sqrt(1.0 * n));
  EXPECT_NEAR(fourth / (2 * n) / (variance * variance), 2.7, 0.02) << "3 - 1.2 / 4 for four summands";
}

}  // namespace
}  // namespace attest
