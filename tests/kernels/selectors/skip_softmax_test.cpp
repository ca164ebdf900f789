// skip_softmax against a plain loop over tiles.
#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

PlainForm skip_softmax(const std::string& options) {
  const Options o(options);
  return [o](const Query& query) {
    const auto tile = static_cast<std::size_t>(o.number("tile", 128));
    std::vector<Row> best;
    for (int h = 0; h < query.group(); ++h) best.push_back(block_max(query.exact_row(h), tile));
    const std::size_t tiles = best[0].size();
    const std::size_t splits = std::min(tiles, static_cast<std::size_t>(o.number("splits", 1)));
    Plain plain;
    plain.keep = [=](double delta) {
      std::vector<Kept> kept(best.size(), Kept(tiles, 0));
      for (std::size_t c = 0; c < tiles; ++c)
        for (std::size_t h = 0; h < best.size(); ++h) {
          double before = -std::numeric_limits<double>::infinity();
          for (std::size_t e = c % splits; e < c; e += splits) before = std::max(before, best[h][e]);
          kept[h][c] = c < splits || !(best[h][c] - before < -delta);
        }
      if (!o.is("gqa", "per_head")) kept = united(kept);
      for (Kept& head : kept) head = tokens_of(head, tile, query.length());
      return kept;
    };
    plain.bytes = [=](const std::vector<Kept>& kept) {
      return 2.0 * query.dim() * static_cast<double>(query.length()) + 2.0 * query.value_dim() * kept_by_group(kept);
    };
    return plain;
  };
}

TEST(SkipSoftmax, ConformsToItsLoop) {
  for (const char* options : {"", "tile=16", "tile=16,gqa=per_head", "tile=7,splits=4", "tile=1,splits=3,gqa=per_head",
                              "unit=factor,tile=16", "unit=factor,tile=32,splits=2,gqa=per_head"}) {
    const Compared compared = expect_conforms("skip_softmax", options, skip_softmax(options));
    EXPECT_GT(compared.partial, compared.all / 20) << options;
  }
}

TEST(SkipSoftmax, AFactorIsADeltaThatGrowsWithTheContext) {
  const std::unique_ptr<Selector> by_factor = selector("skip_softmax", "unit=factor");
  EXPECT_EQ(by_factor->setting_kind(), SettingKind::factor);
  EXPECT_DOUBLE_EQ(by_factor->resolve({1000}, 32000), std::log(32.0));
  EXPECT_EQ(by_factor->resolve({1000}, 1000), 0);
  EXPECT_EQ(by_factor->resolve({1000}, 999), std::numeric_limits<double>::infinity());
  EXPECT_GT(by_factor->resolve({10}, 32000), by_factor->resolve({1000}, 32000)) << "a larger factor keeps less";
}

TEST(SkipSoftmax, SalientTokensFollowADeltaButNoFactor) {
  EXPECT_EQ(selector("skip_softmax")->natural_delta(3, {}), 3);
  EXPECT_TRUE(std::isnan(selector("skip_softmax", "unit=factor")->natural_delta(3, {})));
}

TEST(SkipSoftmax, SaysWhereNoTileCanBeSkipped) {
  const std::unique_ptr<Selector> plain = selector("skip_softmax", "tile=16,splits=2");
  EXPECT_FALSE(plain->short_context(1, 32).empty());
  EXPECT_TRUE(plain->short_context(1, 33).empty());
  EXPECT_FALSE(
      selector("skip_softmax", "unit=factor")->short_context(std::numeric_limits<double>::infinity(), 5000).empty());
}

}  // namespace
}  // namespace attest::test
