// SparQ against its formulas, in the variants of the released code and of the paper.
#include "dumps/base/error.h"
#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

std::vector<Row> plain_estimate(const Query& query, std::int64_t rank) {
  Row magnitude;
  for (int d = 0; d < query.dim(); ++d) {
    magnitude.push_back(0);
    for (int h = 0; h < query.group(); ++h) magnitude.back() += std::fabs(query.q(h, d));
  }
  const Kept chosen = best_n(magnitude, static_cast<double>(rank));
  std::vector<Row> estimate;
  for (int h = 0; h < query.group(); ++h) {
    double all = 0, seen = 0;
    for (int d = 0; d < query.dim(); ++d) {
      all += std::fabs(query.q(h, d));
      if (chosen[static_cast<std::size_t>(d)]) seen += std::fabs(query.q(h, d));
    }
    estimate.emplace_back();
    for (std::int64_t j = 0; j < query.length(); ++j) {
      double dot = 0;
      for (int d = 0; d < query.dim(); ++d)
        if (chosen[static_cast<std::size_t>(d)]) dot += query.q(h, d) * query.k(j, d);
      estimate.back().push_back(query.score_of((seen > 0 ? std::sqrt(all / seen) : 1) * dot));
    }
  }
  return estimate;
}

PlainForm sparq(const std::string& options) {
  const Options o(options);
  return [o](const Query& query) {
    Plain plain;
    plain.estimate = plain_estimate(query, o.number("rank", 32));
    const std::vector<Row> estimate = plain.estimate;
    plain.keep = [=](double budget) {
      Row score(estimate[0].size(), 0.0);
      for (const Row& s : estimate) {
        const Row w = o.is("score", "softmax") ? softmax(s) : s;
        for (std::size_t j = 0; j < score.size(); ++j) score[j] += w[j];
      }
      const double free = o.is("count", "paper") ? 0 : 1;
      const double k = std::max(budget, 1 - free);
      const double local = std::floor(std::stod(o.text("local", "0.25")) * k) + free;
      for (std::size_t j = 0; j < score.size(); ++j)
        if (static_cast<double>(score.size() - j) <= local) score[j] = std::numeric_limits<double>::max();
      return std::vector<Kept>(estimate.size(), best_n(score, k + free));
    };
    if (!o.is("mean_value", "off"))
      plain.mean_share = [=](const std::vector<Kept>& kept) {
        Row share;
        for (std::size_t h = 0; h < estimate.size(); ++h) {
          const Row w = softmax(estimate[h]);
          share.push_back(0);
          for (std::size_t j = 0; j < w.size(); ++j) share.back() += kept[h][j] ? w[j] : 0;
        }
        return share;
      };
    plain.bytes = [=](const std::vector<Kept>& kept) {
      return 2.0 * static_cast<double>(o.number("rank", 32) * query.length()) +
             dense_bytes(query, kept_by_group(kept)) + (o.is("mean_value", "off") ? 0 : 2.0 * query.value_dim());
    };
    return plain;
  };
}

TEST(Sparq, ConformsToItsFormulas) {
  for (const char* options :
       {"", "rank=8,score=softmax", "count=paper,mean_value=off", "local=0", "rank=64,local=1,count=paper"}) {
    const Compared compared = expect_conforms("sparq", options, sparq(options), sums_are_distinct);
    EXPECT_GT(compared.partial, compared.all / 3) << options;
  }
}

TEST(Sparq, RankIsAtMostHeadDim) {
  selector("sparq", "rank=64")->check({64, 64});
  EXPECT_THROW(selector("sparq", "rank=65")->check({64, 64}), UsageError);
}

}  // namespace
}  // namespace attest::test
