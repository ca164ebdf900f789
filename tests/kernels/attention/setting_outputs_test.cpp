// The one-pass sweep over all settings, against one softmax per setting.
#include "kernels/attention/setting_outputs.h"

#include <gtest/gtest.h>

#include "tests/cases.h"
#include "tests/kernels/plain.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr double kOrder = 1e-12;  // of sums of 200 weights

struct Sweep {
  std::vector<float> values, approximate;
  std::vector<std::int64_t> visible, num_approximate;
  RowMatrix<double> scores;
  RowMatrix<Level> levels;
  KvHead head;
};

/// Levels come in runs and single tokens. With more than two settings, setting 1 adds no token. Some tokens are never
/// kept.
Sweep random_sweep(int value_dim, int settings, double spread, Random& random) {
  Sweep s;
  s.visible = {1, 63, 64, 65, 130, 200};
  s.head.value_dim = value_dim;
  s.head.group = 2;
  s.head.num_queries = 6;
  s.head.length = 200;
  for (std::int64_t i = 0; i < 200 * value_dim; ++i) {
    s.values.push_back(static_cast<float>(random.normal()));
    s.approximate.push_back(static_cast<float>(random.normal()));
  }
  for (std::int64_t v : s.visible) s.num_approximate.push_back(random.below(v + 1));
  s.scores.resize(12, 200);
  s.levels.resize(12, 200);
  for (int r = 0; r < 12; ++r) {
    Level level = 0;
    for (int j = 0; j < 200; ++j) {
      s.scores.row(r)[j] = spread * random.normal();
      if (random.below(4) == 0) level = static_cast<Level>(random.below(settings + 1));
      if (level == 1 && settings > 2) level = 2;
      s.levels.row(r)[j] = level;
    }
  }
  return s;
}

void expect_setting(const Sweep& s, const SettingOutputs& found, int r, int setting, bool approximate) {
  const auto n = static_cast<std::size_t>(r / 2);
  Row kept_scores;
  std::vector<std::int64_t> kept;
  for (std::int64_t j = 0; j < s.visible[n]; ++j)
    if (s.levels.row(r)[j] <= setting) kept.push_back(j), kept_scores.push_back(s.scores.row(r)[j]);
  const std::span<const double> o = found.output_of(setting);
  if (kept.empty()) {
    EXPECT_EQ(found.lse[static_cast<std::size_t>(setting)], -std::numeric_limits<double>::infinity());
    for (double x : o) EXPECT_EQ(x, 0);
    return;
  }
  const Row w = softmax(kept_scores);
  const double max = *std::max_element(kept_scores.begin(), kept_scores.end());
  double sum = 0;
  for (double x : kept_scores) sum += std::exp(x - max);
  EXPECT_TRUE(relatively_near(found.lse[static_cast<std::size_t>(setting)], max + std::log(sum), kOrder));
  for (std::size_t d = 0; d < o.size(); ++d) {
    double expected = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const bool is_approximate = approximate && kept[i] < s.num_approximate[n];
      expected +=
          w[i] * static_cast<double>(
                     (is_approximate ? s.approximate : s.values)[static_cast<std::size_t>(kept[i]) * o.size() + d]);
    }
    ASSERT_NEAR(o[d], expected, kOrder) << "row " << r << ", setting " << setting << ", channel " << d;
  }
}

TEST(AccumulateSettings, EverySettingIsItsOwnSoftmax) {
  Random random(71);
  for (int value_dim : {1, 7, 8, 64, 80, 200})
    for (int settings : {1, 2, 16})
      for (double spread : {1.0, 3000.0}) {  // exp overflows and underflows without the running maximum
        Sweep s = random_sweep(value_dim, settings, spread, random);
        s.head.values = s.values.data();
        s.head.visible = s.visible;
        for (bool approximate : {false, true}) {
          std::vector<SettingOutputs> found;
          const ApproximateValues read{approximate ? s.approximate.data() : nullptr, s.num_approximate};
          accumulate_settings(s.head, s.scores, s.levels, read, settings, found);
          ASSERT_EQ(found.size(), 12u);
          for (int r = 0; r < 12; ++r)
            for (int i = 0; i < settings; ++i) expect_setting(s, found[static_cast<std::size_t>(r)], r, i, approximate);
        }
      }
}

TEST(AccumulateSettings, ARowDoesNotDependOnTheRowsBesideIt) {
  Random random(72);
  Sweep s = random_sweep(64, 5, 1.0, random);
  s.head.values = s.values.data();
  s.head.visible = s.visible;
  std::vector<SettingOutputs> together, alone;
  accumulate_settings(s.head, s.scores, s.levels, {}, 5, together);
  for (int n = 0; n < 6; ++n) {
    RowMatrix<double> scores;
    RowMatrix<Level> levels;
    KvHead head = s.head;
    head.num_queries = 1;
    head.visible = std::span(s.visible).subspan(static_cast<std::size_t>(n), 1);
    head.length = head.visible[0];
    scores.resize(2, head.length);
    levels.resize(2, head.length);
    for (int h = 0; h < 2; ++h) {
      std::copy_n(s.scores.row(2 * n + h), head.length, scores.row(h));
      std::copy_n(s.levels.row(2 * n + h), head.length, levels.row(h));
    }
    accumulate_settings(head, scores, levels, {}, 5, alone);
    for (std::size_t h = 0; h < 2; ++h) {
      EXPECT_EQ(alone[h].output, together[static_cast<std::size_t>(2 * n) + h].output);
      EXPECT_EQ(alone[h].lse, together[static_cast<std::size_t>(2 * n) + h].lse);
    }
  }
}

}  // namespace
}  // namespace attest::test
