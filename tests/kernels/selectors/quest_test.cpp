// Quest against its formulas, in both variants of the released code.
#include "kernels/attention/scores.h"
#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

/// score = scale * sum_d max(q_d min_d, q_d max_d), soft-capped.
std::vector<Row> plain_page_scores(const Query& query, std::int64_t page) {
  std::vector<Row> scores(static_cast<std::size_t>(query.group()));
  for (int h = 0; h < query.group(); ++h)
    for (std::int64_t begin = 0; begin < query.length(); begin += page) {
      double bound = 0;
      for (int d = 0; d < query.dim(); ++d) {
        double minimum = query.k(begin, d), maximum = minimum;
        for (std::int64_t j = begin; j < std::min(begin + page, query.length()); ++j) {
          minimum = std::min(minimum, query.k(j, d));
          maximum = std::max(maximum, query.k(j, d));
        }
        bound += std::max(query.q(h, d) * minimum, query.q(h, d) * maximum);
      }
      scores[static_cast<std::size_t>(h)].push_back(query.score_of(bound));
    }
  return scores;
}

Kept keep_pages(const Row& scores, const Options& o, double budget, std::int64_t length, double page) {
  const auto pages = static_cast<double>(scores.size());
  if (!o.is("preset", "kernel"))
    return best_n(scores,
                  std::min(std::max(3.0, std::floor(std::min(budget, static_cast<double>(length)) / page)), pages));
  const double budget_pages = std::floor(budget / page);
  if (pages <= budget_pages) return Kept(scores.size(), 1);
  Kept kept = best_n(Row(scores.begin(), scores.end() - 1), std::max(1.0, budget_pages) - 1);
  kept.push_back(1);
  return kept;
}

PlainForm quest(const std::string& options) {
  const Options o(options);
  return [o](const Query& query) {
    const std::int64_t page = o.number("page", 16);
    const std::vector<Row> scores = plain_page_scores(query, page);
    Plain plain;
    for (const Row& row : scores) {
      Row tokens;
      for (std::int64_t j = 0; j < query.length(); ++j) tokens.push_back(row[static_cast<std::size_t>(j / page)]);
      plain.estimate.push_back(tokens);
    }
    plain.keep = [=](double budget) {
      std::vector<Kept> kept;
      Row sum(scores[0].size(), 0.0);
      for (const Row& row : scores)
        for (std::size_t i = 0; i < row.size(); ++i) sum[i] += row[i];
      for (const Row& row : scores)
        kept.push_back(tokens_of(
            keep_pages(o.is("gqa", "shared") ? sum : row, o, budget, query.length(), static_cast<double>(page)),
            static_cast<std::size_t>(page), query.length()));
      return kept;
    };
    plain.bytes = [=](const std::vector<Kept>& kept) {
      return static_cast<double>(scores[0].size()) * 4 * query.dim() + dense_bytes(query, kept_by_group(kept));
    };
    return plain;
  };
}

TEST(Quest, ConformsToItsFormulas) {
  const Compared compared = expect_conforms("quest", "", quest(""));
  EXPECT_GT(compared.partial, compared.all / 4);
  for (const char* options : {"preset=kernel", "gqa=shared", "page=32", "page=7,preset=kernel,gqa=shared"})
    expect_conforms("quest", options, quest(options));
}

TEST(Quest, EvaluationPresetDropsAPageOfAPartialContext) {
  const Case c{"", 1, 1, 64, 64, ElementType::float32, {100}};
  for (const HeadData& data : heads_of(make_layer(c))) {
    for (const auto& [preset, dropped] : {std::pair{"preset=evaluation", true}, {"preset=kernel", false}}) {
      const std::unique_ptr<Selector> quest = selector("quest", preset);
      const std::vector<AscendingGrid> grids{ascending(*quest, std::vector<Setting>{{1e9}}, 101)};
      Selection found;
      found.reset(data.head, {}, 1);
      quest->select(data.head, exact_scores(data.head), grids, found);
      EXPECT_EQ(std::count(found.levels.row(0), found.levels.row(0) + 101, Level{1}) > 0, dropped) << preset;
    }
  }
}

// The bound holds for real numbers. It must also hold after rounding: studies rely on zero violations.
TEST(Quest, PageScoreIsNeverBelowAnExactScoreOfThePage) {
  for (const Case& c : cases())
    for (const HeadData& data : heads_of(make_layer(c, 7))) {
      RowMatrix<double> exact;
      scores(data.head.queries, data.head.rows(), c.head_dim, data.head.keys, data.head.length, data.head.transform,
             exact);
      const std::vector<AscendingGrid> grids(data.visible.size(), AscendingGrid{{1024}, {0}});
      Selection found;
      found.reset(data.head, {}, 1);
      selector("quest", "page=4")->select(data.head, exact_scores(data.head), grids, found);
      for (int r = 0; r < data.head.rows(); ++r)
        for (std::int64_t j = 0; j < data.head.row_length(r); ++j)
          ASSERT_GE(found.estimate->scores.row(r)[j], exact.row(r)[j]) << c << ", row " << r << ", token " << j;
    }
}

TEST(Quest, TwoLayersAreDenseByDefault) { EXPECT_EQ(selector("quest")->dense_layers(), 2); }

}  // namespace
}  // namespace attest::test
