// Code shared by all selectors: ascending grids and the Selection that they fill.
#include "kernels/selectors/selector.h"

#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

TEST(AscendingGrid, MixesTokensAndPerCentPerQuery) {
  const std::vector<Setting> grid{{100}, {50, true}, {10}, {100}};
  const std::unique_ptr<Selector> topk = make_selector({.label = "", .name = "topk", .options = {}});
  const AscendingGrid at_150 = ascending(*topk, grid, 150), at_1000 = ascending(*topk, grid, 1000);
  EXPECT_EQ(at_150.values, (std::vector<double>{10, 75, 100, 100}));
  EXPECT_EQ(at_150.given_index, (std::vector<int>{2, 1, 0, 3}));
  EXPECT_EQ(at_1000.values, (std::vector<double>{10, 100, 100, 500}));
  EXPECT_EQ(at_1000.given_index, (std::vector<int>{2, 0, 3, 1}));
}

/// Keeps more for smaller settings, like a threshold on weights.
class Reversed final : public Selector {
 public:
  SettingKind setting_kind() const override { return SettingKind::factor; }
  bool has_estimate() const override { return false; }
  double resolve(const Setting& setting, std::int64_t visible) const override {
    return static_cast<double>(visible) / setting.value;
  }
  void select(const KvHead&, const RankedScores&, std::span<const AscendingGrid>, Selection&) const override {}
};

TEST(AscendingGrid, FollowsTheSelectorsOwnOrder) {
  const std::vector<Setting> grid{{2}, {8}, {4}, {8}};
  const AscendingGrid at_64 = ascending(Reversed(), grid, 64);
  EXPECT_EQ(at_64.values, (std::vector<double>{8, 8, 16, 32}));
  EXPECT_EQ(at_64.given_index, (std::vector<int>{1, 3, 2, 0}));
}

// A Selection is reused across heads and selectors. reset() must remove everything of the previous use.
TEST(Selection, ResetForgetsTheSelectorBefore) {
  const std::vector<HeadData> heads = heads_of(make_layer(cases()[0]));
  const KvHead& head = heads[0].head;
  constexpr MetricInfo kOwn[] = {{"of_row", MetricAxes::query_head, "ratio", Better::neither, "one per row"},
                                 {"of_setting", MetricAxes::query_head_setting, "ratio", Better::neither, "S per row"}};
  Selection selection;
  for (int settings : {3, 5}) {
    selection.estimate = &selection.own_estimate;
    selection.own_estimate.ranked = true;
    selection.exact = true;
    selection.read_scores = &selection.own_read_scores;
    selection.approximate_values.assign(7, 1.0f);
    selection.mean_value_share.resize(head.rows(), 4);
    selection.reset(head, kOwn, settings);
    EXPECT_EQ(selection.estimate, nullptr);
    EXPECT_FALSE(selection.own_estimate.ranked);
    EXPECT_FALSE(selection.exact);
    EXPECT_EQ(selection.read_scores, nullptr);
    EXPECT_TRUE(selection.approximate_values.empty());
    EXPECT_TRUE(selection.mean_value_share.empty());
    EXPECT_EQ(selection.covered, std::vector<std::int64_t>(head.visible.begin(), head.visible.end()));
    EXPECT_EQ(selection.io.size(), head.visible.size());
    EXPECT_EQ(selection.num_approximate, std::vector<std::int64_t>(head.visible.size(), 0));
    EXPECT_EQ(selection.levels.rows(), head.rows());
    ASSERT_EQ(selection.own_metrics.size(), 2u);
    for (std::size_t m = 0; m < 2; ++m) {
      RowMatrix<double>& own = selection.own_metrics[m];
      EXPECT_EQ(own.rows(), head.rows());
      EXPECT_EQ(own.columns(), m == 0 ? 1 : settings);
      for (std::int64_t r = 0; r < own.rows(); ++r)
        for (std::int64_t i = 0; i < own.columns(); ++i) {
          EXPECT_TRUE(std::isnan(own.row(r)[i])) << kOwn[m].name;
          own.row(r)[i] = 1;
        }
    }
  }
  selection.reset(head, {}, 3);
  EXPECT_TRUE(selection.own_metrics.empty());
}

}  // namespace
}  // namespace attest::test
