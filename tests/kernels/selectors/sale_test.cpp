// SALE against its formulas.
#include "kernels/quantize/sale_int4.h"
#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

struct PlainInt4 {
  Row codes;
  double scale;
};

/// int4 codes of x; absmax is the largest magnitude among all numbers that share its scale.
PlainInt4 plain_int4(const Row& x, double absmax) {
  PlainInt4 out{{}, f32(absmax / 7)};
  for (double value : x) out.codes.push_back(absmax == 0 ? 0 : half_even(f32(f32(value * 7) / absmax)));
  return out;
}

double largest(const Row& x) {
  double m = 0;
  for (double value : x) m = std::max(m, std::fabs(value));
  return m;
}

std::vector<PlainInt4> plain_keys(const std::vector<Row>& keys, bool by_token) {
  std::vector<PlainInt4> out;
  for (std::size_t j = 0; j < keys.size(); ++j) {
    double absmax = 0;
    for (std::size_t i = j / 32 * 32; i < std::min(keys.size(), j / 32 * 32 + 32); ++i)
      if (by_token ? i == j : (i % 8) / 2 == (j % 8) / 2) absmax = std::max(absmax, largest(keys[i]));
    out.push_back(plain_int4(keys[j], absmax));
  }
  return out;
}

std::vector<Row> plain_estimate(const Query& query, bool by_token) {
  const auto length = static_cast<std::size_t>(query.length());
  Row mean(static_cast<std::size_t>(query.dim()), 0.0);
  std::vector<Row> centred(length);
  for (int d = 0; d < query.dim(); ++d) {
    const auto channel = static_cast<std::size_t>(d);
    for (std::size_t j = 0; j < length; ++j) mean[channel] += query.k(static_cast<std::int64_t>(j), d);
    mean[channel] = f32(mean[channel] / static_cast<double>(length));
    for (std::size_t j = 0; j < length; ++j)
      centred[j].push_back(f32(query.k(static_cast<std::int64_t>(j), d) - mean[channel]));
  }
  const std::vector<PlainInt4> keys = plain_keys(centred, by_token);
  std::vector<Row> estimate;
  for (int h = 0; h < query.group(); ++h) {
    Row q;
    for (int d = 0; d < query.dim(); ++d) q.push_back(query.q(h, d));
    const PlainInt4 coded = plain_int4(q, largest(q));
    double of_mean = 0;
    for (std::size_t d = 0; d < q.size(); ++d) of_mean += q[d] * mean[d];
    estimate.emplace_back();
    for (const PlainInt4& key : keys) {
      double dot = 0;
      for (std::size_t d = 0; d < q.size(); ++d) dot += coded.codes[d] * key.codes[d];
      estimate.back().push_back(query.score_of(coded.scale * key.scale * dot + of_mean));
    }
  }
  return estimate;
}

PlainForm sale(const std::string& options) {
  const Options o(options);
  return [o](const Query& query) {
    Plain plain;
    plain.estimate = plain_estimate(query, o.is("key_scale", "token"));
    const std::vector<Row> estimate = plain.estimate;
    const std::int64_t length = query.length();
    const bool dense = length <= o.number("dense_below", 1024);
    plain.keep = [=](double delta) {
      const double tau = std::exp(-delta);
      std::vector<Kept> kept;
      for (int h = 0; h < query.group(); ++h) {
        const Row exact = query.exact_row(h);
        const std::int64_t blocks = (length + 31) / 32, local = 4 + (blocks - 1) % 4;
        double m = -std::numeric_limits<double>::infinity(), z = 0;
        const auto at_end = [&](std::int64_t j) { return j / 32 == 0 || j / 32 >= blocks - local; };
        for (std::int64_t j = 0; j < length; ++j)
          if (at_end(j)) m = std::max(m, exact[static_cast<std::size_t>(j)]);
        for (std::int64_t j = 0; j < length; ++j)
          if (at_end(j)) z += std::exp(exact[static_cast<std::size_t>(j)] - m);
        const Row best = block_max(estimate[static_cast<std::size_t>(h)], 32);
        kept.emplace_back();
        for (std::int64_t j = 0; j < length; ++j)
          kept.back().push_back(dense || at_end(j) || best[static_cast<std::size_t>(j / 32)] > m + std::log(tau * z));
      }
      return kept;
    };
    plain.bytes = [=](const std::vector<Kept>& kept) {
      const auto l = static_cast<double>(length);
      return dense ? dense_bytes(query, l) : l * query.dim() / 2 + 2 * l + dense_bytes(query, kept_by_group(kept));
    };
    return plain;
  };
}

TEST(Sale, ConformsToItsFormulas) {
  for (const char* options : {"dense_below=0", "dense_below=300,key_scale=token"}) {
    const Compared compared = expect_conforms("sale", options, sale(options));
    EXPECT_GT(compared.partial, compared.all / 10) << options;
  }
  EXPECT_EQ(expect_conforms("sale", "", sale("")).partial, 0);  // dense: all cases are shorter than 1024
}

}  // namespace
}  // namespace attest::test
