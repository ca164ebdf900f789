// FFD against its formulas: thumbnail, residual, pseudo-max, rules, units, GQA policy.
#include "tests/kernels/plain_quantize.h"
#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct PlainKeys {
  std::vector<Row> thumbnail, read;  ///< [tokens of the full blocks][D]: k^ and k^ + r
};

/// Quantises one channel of the tokens [begin, end), which share a scale.
void quantise(const Query& query, const Options& o, std::int64_t begin, std::int64_t end, int d, PlainKeys& keys) {
  const std::string residual = o.text("residual", "fp8");
  Row channel;
  for (std::int64_t j = begin; j < end; ++j) channel.push_back(query.k(j, d));
  const PlainFfdGroup group = plain_ffd(channel, static_cast<int>(o.number("bits", 2)), residual,
                                        o.is("quant_arith", "dump"), query.head->element_type);
  for (std::size_t i = 0; i < channel.size(); ++i) {
    const std::size_t j = static_cast<std::size_t>(begin) + i;
    keys.thumbnail[j][static_cast<std::size_t>(d)] = group.thumbnail[i];
    keys.read[j][static_cast<std::size_t>(d)] =
        residual == "exact" ? channel[i] : group.thumbnail[i] + group.residual[i];
  }
}

PlainKeys plain_keys(const Query& query, const Options& o, std::int64_t covered, std::int64_t block) {
  const std::vector<Row> empty(static_cast<std::size_t>(covered), Row(static_cast<std::size_t>(query.dim())));
  PlainKeys keys{empty, empty};
  const std::int64_t shared = o.is("scale", "sequence") ? std::max<std::int64_t>(covered, 1) : block;
  for (int d = 0; d < query.dim(); ++d)
    for (std::int64_t begin = 0; begin < covered; begin += shared) quantise(query, o, begin, begin + shared, d, keys);
  return keys;
}

double max_of(const Row& s, std::int64_t begin, std::int64_t end) {
  return *std::max_element(s.begin() + begin, s.begin() + end);
}

/// Largest score in the sink blocks and the local blocks.
double ends_max(const Row& s, const Options& o, std::int64_t covered, std::int64_t block) {
  double m = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < covered; ++j)
    if (j / block < o.number("sink_blocks", 1) || j / block >= covered / block - o.number("local_blocks", 1))
      m = std::max(m, s[static_cast<std::size_t>(j)]);
  return m;
}

struct PlainFfd {
  Options o;
  Query query;
  std::int64_t block, part, covered;
  std::vector<Row> exact, estimate;

  bool top_k() const { return o.is("rule", "topk"); }
  bool per_head() const { return o.is("gqa", "per_head"); }

  std::vector<Kept> parts(double setting) const {
    std::vector<Row> best;
    for (const Row& s : estimate) best.push_back(block_max(s, static_cast<std::size_t>(part)));
    if (top_k() && !per_head())
      for (std::size_t c = 0; c < best[0].size(); ++c) {
        double m = best[0][c];
        for (const Row& b : best) m = std::max(m, b[c]);
        for (Row& b : best) b[c] = m;
      }
    std::vector<Kept> kept;
    for (std::size_t h = 0; h < estimate.size(); ++h) {
      if (top_k()) {
        kept.push_back(best_n(best[h], std::max(1.0, std::floor(setting / static_cast<double>(part)))));
      } else if (o.is("rule", "topp")) {
        const Row mass = block_sum(softmax(estimate[h]), static_cast<std::size_t>(part));
        kept.push_back(smallest_share(mass, setting, Kept(mass.size(), 1)));
      } else {
        double delta = setting;
        if (o.is("delta_unit", "log2")) delta = setting * std::log(2.0);
        if (o.is("delta_unit", "unscaled")) delta = setting * query.head->transform.scale;
        kept.emplace_back();
        for (double b : best[h]) kept.back().push_back(b >= pseudo_max(h) - delta);
      }
    }
    return per_head() ? kept : united(kept);
  }

  double pseudo_max(std::size_t h) const {
    const std::string kind = o.text("pseudo_max", "thumbnail");
    if (kind == "exact") return ends_max(exact[h], o, covered, block);
    if (kind == "global") return max_of(estimate[h], 0, covered);
    if (kind == "global_exact") return max_of(exact[h], 0, covered);
    return ends_max(estimate[h], o, covered, block);
  }

  std::vector<Kept> keep(double setting) const {
    std::vector<Kept> kept(exact.size(), Kept(static_cast<std::size_t>(query.length()), 1));  // the tail
    if (covered == 0) return kept;
    const std::vector<Kept> of_blocks = parts(setting);
    for (std::size_t h = 0; h < kept.size(); ++h)
      for (std::int64_t j = 0; j < covered; ++j)
        kept[h][static_cast<std::size_t>(j)] = of_blocks[h][static_cast<std::size_t>(j / part)];
    return kept;
  }

  double bytes(const std::vector<Kept>& kept) const {
    const double d = query.dim(), dv = query.value_dim(), f = static_cast<double>(covered / block),
                 b = static_cast<double>(block);
    const double tail = static_cast<double>(query.length() - covered), kept_full = kept_by_group(kept) - tail;
    const std::string kind = o.text("residual", "fp8");
    if (o.is("scan", "exact")) return f * b * 2 * d + kept_full * 2 * dv + tail * 2 * (d + dv);
    const double r = kind == "none" ? 0 : kind == "exact" ? 2 : 1;
    const double scales = o.is("scale", "sequence") ? 2 * d : 2 * d * f;
    return f * b * d * static_cast<double>(o.number("bits", 2)) / 8 + scales + kept_full * (r * d + 2 * dv) +
           tail * 2 * (d + dv);
  }

  Row block_keep_ratio(const std::vector<Kept>& kept) const {
    Row ratio;
    for (const Kept& row : kept) {
      double parts = 0, kept_parts = 0;
      for (std::int64_t j = 0; j < covered; j += part) parts += 1, kept_parts += row[static_cast<std::size_t>(j)];
      ratio.push_back(parts > 0 ? kept_parts / parts : kNaN);
    }
    return ratio;
  }
};

PlainForm ffd(const std::string& options) {
  const Options o(options);
  return [o](const Query& query) {
    PlainFfd ffd{o, query, o.number("block", 128), 0, 0, {}, {}};
    ffd.part = o.number("sub_block", ffd.block);
    ffd.covered = query.length() / ffd.block * ffd.block;
    const PlainKeys keys = plain_keys(query, o, ffd.covered, ffd.block);
    Plain plain;
    for (int h = 0; h < query.group(); ++h) {
      const Row s = query.exact_row(h);
      Row read = query.scores_of(h, keys.read);
      for (std::int64_t j = ffd.covered; j < query.length(); ++j) read.push_back(s[static_cast<std::size_t>(j)]);
      ffd.exact.push_back(s);
      ffd.estimate.push_back(o.is("scan", "exact") ? Row(s.begin(), s.begin() + ffd.covered)
                                                   : query.scores_of(h, keys.thumbnail));
      if (!o.is("scan", "exact") && !o.is("residual", "exact")) plain.read_scores.push_back(read);
      const bool any = ffd.covered > 0;
      const double full = any ? max_of(s, 0, ffd.covered) : kNaN,
                   ends = any ? ends_max(s, o, ffd.covered, ffd.block) : kNaN;
      plain.row_metrics["pseudo_max_gap_exact"].push_back(full - ends);
      plain.row_metrics["pseudo_max_gap_thumbnail"].push_back(
          any && !o.is("scan", "exact") ? full - ends_max(ffd.estimate.back(), o, ffd.covered, ffd.block) : kNaN);
      plain.row_metrics["pseudo_max_gap_all"].push_back(any ? max_of(s, 0, query.length()) - ends : kNaN);
    }
    plain.estimate = ffd.estimate;
    plain.keep = [ffd](double setting) { return ffd.keep(setting); };
    plain.bytes = [ffd](const std::vector<Kept>& kept) { return ffd.bytes(kept); };
    plain.setting_metrics["block_keep_ratio"] = [ffd](const std::vector<Kept>& kept) {
      return ffd.block_keep_ratio(kept);
    };
    return plain;
  };
}

TEST(Ffd, ConformsToItsFormulas) {
  const Compared compared = expect_conforms("ffd", "", ffd(""));
  // Few settings are partial: a case has only a few blocks, and the first and last of them set the threshold.
  EXPECT_GT(compared.partial, compared.all / 50);
}

class FfdOptions : public ::testing::TestWithParam<const char*> {};

TEST_P(FfdOptions, ConformToTheirFormulas) {
  const bool masses = Options(GetParam()).is("rule", "topp");
  const Compared compared = expect_conforms("ffd", GetParam(), ffd(GetParam()),
                                            [=](const Case& c) { return !masses || sums_are_distinct(c); });
  EXPECT_GT(compared.partial, compared.all / 50);
}

INSTANTIATE_TEST_SUITE_P(
    All, FfdOptions,
    ::testing::Values("bits=1,gqa=per_head", "bits=3,residual=int8", "bits=4,residual=none",
                      "bits=8,residual=exact,block=32", "scale=sequence", "scale=sequence,residual=int8,block=64",
                      "quant_arith=dump", "quant_arith=dump,bits=1,residual=int8,scale=sequence",
                      "block=32,sub_block=8", "sub_block=16,gqa=per_head,pseudo_max=exact",
                      "pseudo_max=global,block=16", "pseudo_max=global_exact,block=64", "delta_unit=log2,block=32",
                      "delta_unit=unscaled,block=32", "block=32,sink_blocks=3,local_blocks=0",
                      "block=32,sink_blocks=0,local_blocks=40", "scan=exact,block=32", "rule=topk,block=32",
                      "rule=topk,block=32,gqa=per_head,sub_block=16,scan=exact", "rule=topp,block=32",
                      "rule=topp,block=64,sub_block=16,gqa=per_head"));

// A mid-rise codebook has no zero, and no block of this case has a grid fine enough to be exact.
TEST(Ffd, ThumbnailsHaveAnError) {
  const Case c{"", 1, 1, 64, 64, ElementType::bfloat16, {255}};
  for (const HeadData& data : heads_of(make_layer(c))) {
    const RankedScores exact = exact_scores(data.head);
    Selection found;
    const std::unique_ptr<Selector> ffd = selector("ffd");
    found.reset(data.head, ffd->own_metrics(), 1);
    ffd->select(data.head, exact, std::vector<AscendingGrid>{{{5}, {0}}}, found);
    for (int j = 0; j < 256; ++j) {
      EXPECT_NE(found.estimate->scores.row(0)[j], exact.scores.row(0)[j]);
      EXPECT_NE(found.read_scores->row(0)[j], exact.scores.row(0)[j]);
      // The residual removes most of the error.
      EXPECT_LT(std::fabs(found.read_scores->row(0)[j] - exact.scores.row(0)[j]), 0.25);
    }
  }
}

TEST(Ffd, SettingFollowsTheRule) {
  EXPECT_EQ(selector("ffd")->setting_kind(), SettingKind::delta);
  EXPECT_EQ(selector("ffd", "rule=topk")->setting_kind(), SettingKind::budget);
  EXPECT_EQ(selector("ffd", "rule=topp")->setting_kind(), SettingKind::p);
}

TEST(Ffd, DeltaInNaturalUnits) {
  const ScoreTransform transform{.scale = 0.125, .softcap = 0};
  EXPECT_EQ(selector("ffd")->natural_delta(5, transform), 5);
  EXPECT_DOUBLE_EQ(selector("ffd", "delta_unit=log2")->natural_delta(5, transform), 3.4657359027997265);
  EXPECT_EQ(selector("ffd", "delta_unit=unscaled")->natural_delta(5, transform), 0.625);
  EXPECT_TRUE(std::isnan(selector("ffd", "rule=topk")->natural_delta(5, transform)));
}

}  // namespace
}  // namespace attest::test
