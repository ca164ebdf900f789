// Twilight against its formulas: base selection, 4-bit estimate, exact rule and the released kernel's bisection.
#include "tests/kernels/plain_quantize.h"
#include "tests/kernels/rank/plain_top_p.h"
#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

Row plain_key(const Query& query, std::int64_t j) {
  Row x;
  for (int d = 0; d < query.dim(); ++d) x.push_back(query.k(j, d));
  return plain_token(x, 4, 1e-9);
}

Kept plain_base(const Query& query, int h, const Options& o) {
  const std::int64_t page = o.number("page", 16), length = query.length();
  if (o.is("base", "none")) return Kept(static_cast<std::size_t>(length), 1);
  Row bounds;
  for (std::int64_t begin = 0; begin < length; begin += page) {
    double bound = 0;
    for (int d = 0; d < query.dim(); ++d) {
      // q_d is the same for all tokens, so the largest product is that of the page's minimum or maximum.
      double best_term = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = begin; j < std::min(begin + page, length); ++j)
        best_term = std::max(best_term, query.q(h, d) * query.k(j, d));
      bound += best_term;
    }
    bounds.push_back(query.score_of(bound));
  }
  const std::string text = o.text("base_budget", "8192");
  const double budget =
      text.back() == '%' ? std::floor(std::stod(text) * static_cast<double>(length) / 100 + 1e-9) : std::stod(text);
  const auto p = static_cast<double>(page);
  const double n = std::max(1.0, std::floor(budget / p)) + (std::fmod(budget, p) > 0);
  return tokens_of(best_n(bounds, n), static_cast<std::size_t>(page), length);
}

PlainForm twilight(const std::string& options) {
  const Options o(options);
  return [o](const Query& query) {
    std::vector<Row> keys;
    for (std::int64_t j = 0; j < query.length(); ++j) keys.push_back(plain_key(query, j));
    Plain plain;
    std::vector<Kept> base;
    std::vector<Row> weights;
    for (int h = 0; h < query.group(); ++h) {
      plain.estimate.push_back(query.scores_of(h, keys));
      base.push_back(plain_base(query, h, o));
      Row masked = plain.estimate.back();
      for (std::size_t j = 0; j < masked.size(); ++j)
        if (!base.back()[j]) masked[j] = -std::numeric_limits<double>::infinity();
      weights.push_back(softmax(masked));
    }
    if (o.is("weights", "estimated")) plain.read_scores = plain.estimate;
    plain.keep = [=](double p) {
      std::vector<Kept> kept;
      for (std::size_t h = 0; h < base.size(); ++h) {
        if (!o.is("rule", "reference")) {
          kept.push_back(smallest_share(weights[h], p, base[h]));
          continue;
        }
        const std::vector<float> w(weights[h].begin(), weights[h].end());
        const float threshold = plain_threshold(w, p);
        kept.emplace_back();
        for (float x : w) kept.back().push_back(x > threshold);
      }
      return kept;
    };
    plain.bytes = [=](const std::vector<Kept>& kept) {
      const double page = static_cast<double>(o.number("page", 16));
      const double pages = o.is("base", "none") ? 0 : std::ceil(static_cast<double>(query.length()) / page);
      return pages * 4 * query.dim() + kept_by_group(base) * (query.dim() / 2.0 + 4) +
             dense_bytes(query, kept_by_group(kept));
    };
    return plain;
  };
}

TEST(Twilight, ConformsToItsFormulas) {
  const Compared compared = expect_conforms("twilight", "base_budget=100", twilight("base_budget=100"));
  EXPECT_GT(compared.partial, compared.all / 2);
  for (const char* options : {"", "base=none", "base_budget=20%,page=32", "base_budget=75,weights=estimated"})
    expect_conforms("twilight", options, twilight(options));
}

TEST(Twilight, ReferenceRuleConformsToTheReleasedBisection) {
  for (const char* options : {"rule=reference", "rule=reference,base_budget=64"}) {
    EXPECT_FALSE(selector("twilight", options)->monotone());
    const Compared compared = expect_conforms("twilight", options, twilight(options));
    EXPECT_GT(compared.partial, compared.all / 10);
  }
}

// Removing any token from the kept set leaves a mass below p. Every set with one token less has a mass below p, too.
TEST(Twilight, ExactRuleKeepsTheSmallestSet) {
  const Case c{"", 1, 4, 64, 64, ElementType::bfloat16, {410}};
  for (const HeadData& data : heads_of(make_layer(c))) {
    const std::unique_ptr<Selector> twilight = selector("twilight", "base=none");
    const std::vector<AscendingGrid> grids{ascending(*twilight, std::vector<Setting>{{0.5}, {0.85}, {0.99}}, 411)};
    Selection found;
    found.reset(data.head, {}, 3);
    twilight->select(data.head, exact_scores(data.head), grids, found);
    for (int r = 0; r < 4; ++r)
      for (int i = 0; i < 3; ++i) {
        const std::span<const double> s = std::as_const(found.estimate->scores).row(r, 411);
        const Row w = softmax(Row(s.begin(), s.end()));
        double sum = 0, minimum = 1, max_dropped = 0;
        for (std::size_t j = 0; j < w.size(); ++j) {
          if (found.levels.row(r)[j] <= i)
            sum += w[j], minimum = std::min(minimum, w[j]);
          else
            max_dropped = std::max(max_dropped, w[j]);
        }
        const double p = grids[0].values[static_cast<std::size_t>(i)];
        EXPECT_GE(sum, p - 1e-6);
        EXPECT_LT(sum - minimum, p - 1e-6);
        EXPECT_GE(minimum, max_dropped);
        EXPECT_GT(max_dropped, 0);
      }
  }
}

}  // namespace
}  // namespace attest::test
