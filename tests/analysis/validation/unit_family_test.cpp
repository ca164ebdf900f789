// The nested family: each member from the definition, and how very long families are thinned.
#include "analysis/validation/unit_family.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace attest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Settings with indices in `order`, the safest first; a unit of `heads` heads each.
struct Family {
  UnitLosses losses;
  std::vector<Unit> units;
  std::vector<std::size_t> order;
};

Family made_family(std::size_t num_units, std::size_t num_settings, std::uint64_t seed, bool io_falls = true) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  Family made;
  const std::size_t size = num_units * num_settings;
  made.losses = {num_settings, std::vector<double>(size), std::vector<double>(size), std::vector<double>(size)};
  for (std::size_t s = 0; s < num_settings; ++s) made.order.push_back((s * 7 + 3) % num_settings);
  for (std::size_t u = 0; u < num_units; ++u) {
    made.units.push_back(
        {u / 2, static_cast<int>(u % 2), static_cast<std::int64_t>(u % 2), 1 + static_cast<std::int64_t>(u % 3)});
    for (std::size_t rank = 0; rank < num_settings; ++rank) {
      const std::size_t i = u * num_settings + made.order[rank];
      made.losses.worst[i] = uniform(random) < 0.1 ? kInfinity : std::floor(8 * uniform(random)) / 4;  // with ties
      made.losses.io[i] =
          io_falls ? 1 - static_cast<double>(rank + 1) / static_cast<double>(num_settings + 1) : 1.3 * uniform(random);
    }
  }
  return made;
}

/// The smallest setting whose worst loss is at most t.
std::size_t by_definition(const Family& made, std::size_t unit, double t) {
  for (std::size_t rank = made.order.size(); rank-- > 0;)
    if (made.losses.worst[unit * made.losses.num_settings + made.order[rank]] <= t) return made.order[rank];
  return kDense;
}

std::size_t rank_of(const Family& made, std::size_t setting) {
  return setting == kDense ? 0
                           : 1 + static_cast<std::size_t>(std::ranges::find(made.order, setting) - made.order.begin());
}

void check(const Family& made, const std::vector<FamilyMember>& members) {
  double heads = 0;
  for (const Unit& unit : made.units) heads += static_cast<double>(unit.num_heads);
  for (std::size_t m = 0; m < members.size(); ++m) {
    double io = 0;
    for (std::size_t u = 0; u < made.units.size(); ++u) {
      const std::size_t setting = members[m].assignment[u];
      EXPECT_EQ(setting, by_definition(made, u, members[m].slack)) << m << ' ' << u;
      io += (setting == kDense ? 1 : made.losses.io[u * made.losses.num_settings + setting]) *
            static_cast<double>(made.units[u].num_heads) / heads;
      if (m > 0) {
        EXPECT_GE(rank_of(made, setting), rank_of(made, members[m - 1].assignment[u])) << "nested";
      }
    }
    EXPECT_NEAR(members[m].io, io, 1e-9);
    if (m > 0) {
      EXPECT_GT(members[m].slack, members[m - 1].slack);
    }
  }
}

TEST(UnitFamily, MembersAreTheDefinition) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Family made = made_family(1 + seed % 7, 1 + seed % 5, seed, seed % 2 == 0);
    const auto members = make_family(made.losses, made.units, made.order, 1000);
    check(made, members);
    // Every slack at which something changes is there.
    std::vector<double> slacks;
    for (const double worst : made.losses.worst)
      if (std::isfinite(worst) && std::ranges::count(slacks, worst) == 0) slacks.push_back(worst);
    EXPECT_EQ(members.size(), slacks.size());
  }
}

TEST(UnitFamily, UnitsWithoutAnySettingStayDense) {
  Family made = made_family(3, 4, 1);
  std::ranges::fill(made.losses.worst, kInfinity);
  EXPECT_TRUE(make_family(made.losses, made.units, made.order, 100).empty());
  made.losses.worst[0] = 2;  // setting 0 of unit 0
  const auto members = make_family(made.losses, made.units, made.order, 100);
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].assignment, (Assignment{0, kDense, kDense}));
}

/// Of very long families: the first, the last, and no more than asked for, also where io rises and falls.
TEST(UnitFamily, Thinning) {
  for (const bool io_falls : {true, false})
    for (const std::size_t maximum : {2, 3, 10, 50}) {
      Family made = made_family(300, 20, 5, io_falls);
      std::mt19937_64 random(9);
      std::uniform_real_distribution<double> uniform;
      for (double& worst : made.losses.worst) worst = uniform(random);
      if (!io_falls)  // the whole way comes back to where it began
        for (std::size_t u = 0; u < 300; ++u) made.losses.io[u * 20 + made.order[19]] = 1;
      const auto all = make_family(made.losses, made.units, made.order, 1'000'000);
      const auto thin = make_family(made.losses, made.units, made.order, maximum);
      ASSERT_GT(all.size(), 1000u);
      EXPECT_LE(thin.size(), maximum);
      EXPECT_GE(thin.size(), std::min<std::size_t>(maximum, 2));
      EXPECT_EQ(thin.front().slack, all.front().slack);
      EXPECT_EQ(thin.back().slack, all.back().slack);
      EXPECT_EQ(thin.back().assignment, all.back().assignment);
      if (maximum == 50) {
        EXPECT_GE(thin.size(), 30u) << "about as many as asked for";
      }
      check(made, thin);
    }
}

}  // namespace
}  // namespace attest
