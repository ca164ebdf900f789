// DoubleSparse against its formulas, with rankings from a file and from other samples.
#include "dumps/base/error.h"
#include "tests/kernels/plain_quantize.h"
#include "tests/kernels/selectors/selector_test.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

/// Per channel d: mean |q_d| of query head `head`, or mean |k_d| of KV head `head`.
Row mean_magnitude(const AttentionLayer& layer, bool of_queries, int head) {
  const std::int64_t dim = layer.shape.head_dim, rows = of_queries ? layer.num_queries() : layer.num_tokens;
  const std::int64_t first = of_queries ? head * dim : head * layer.num_tokens * dim,
                     stride = of_queries ? layer.shape.num_query_heads * dim : dim;
  Row mean(static_cast<std::size_t>(dim), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::vector<float> row =
        floats_of(layer.element_type, of_queries ? layer.q : layer.k, first + i * stride, dim);
    for (std::size_t d = 0; d < row.size(); ++d)
      mean[d] += std::fabs(static_cast<double>(row[d])) / static_cast<double>(rows);
  }
  return mean;
}

Kept plain_channels(const AttentionLayer& sample, const Options& o, const Query& query, int h) {
  const int kv_head = query.head->kv_head;
  const std::string channel = o.text("channel", "qk");
  Row importance(static_cast<std::size_t>(query.dim()), 1.0);
  const auto times = [&](const Row& factor) {
    for (std::size_t d = 0; d < importance.size(); ++d) importance[d] *= factor[d];
  };
  if (channel != "k") times(mean_magnitude(sample, true, kv_head * query.group() + h));
  if (channel != "q") times(mean_magnitude(sample, false, kv_head));
  return best_n(importance, static_cast<double>(query.dim() / o.number("group_factor", 4)));
}

/// `sample_of` returns the calibration sample of the case that the query belongs to.
PlainForm double_sparsity(const std::string& options,
                          const std::function<const AttentionLayer&(const Query&)>& sample_of) {
  const Options o(options);
  return [o, sample_of](const Query& query) {
    const int bits = static_cast<int>(o.number("bits", 4));
    Plain plain;
    for (int h = 0; h < query.group(); ++h) {
      const Kept chosen = plain_channels(sample_of(query), o, query, h);
      const auto label = [&](auto channel) {
        Row x;
        for (int d = 0; d < query.dim(); ++d)
          if (chosen[static_cast<std::size_t>(d)]) x.push_back(channel(d));
        return bits < 16 ? plain_token(x, bits, 0) : x;
      };
      const Row q = label([&](int d) { return query.q(h, d); });
      plain.estimate.emplace_back();
      for (std::int64_t j = 0; j < query.length(); ++j) {
        const Row k = label([&](int d) { return query.k(j, d); });
        plain.estimate.back().push_back(query.score_of(std::inner_product(q.begin(), q.end(), k.begin(), 0.0)));
      }
    }
    const std::vector<Row> estimate = plain.estimate;
    plain.keep = [=](double budget) {
      std::vector<Kept> kept;
      for (const Row& s : estimate) kept.push_back(best_n(s, std::max(1.0, budget)));
      return kept;
    };
    plain.bytes = [=](const std::vector<Kept>& kept) {
      const double caches = o.is("channel", "k") ? 1 : query.group(), length = static_cast<double>(query.length());
      const double r = static_cast<double>(query.dim() / o.number("group_factor", 4));
      return caches * length * r * bits / 8 + (bits < 16 ? 4 * length * caches : 0) +
             dense_bytes(query, kept_by_group(kept));
    };
    return plain;
  };
}

TEST(DoubleSparsity, ConformsToItsFormulas) {
  for (const char* options :
       {"", "channel=q,group_factor=2,bits=2", "channel=k,group_factor=8,bits=16", "group_factor=1,bits=8"}) {
    AttentionLayer sample;
    const auto make = [&](const Case& c) {
      sample = make_layer(c, kCalibrationSeed);
      std::unique_ptr<Selector> product =
          selector("double_sparsity", std::string("calibrate=other") + (*options != 0 ? "," : "") + options);
      product->calibrate(sample);
      return product;
    };
    const PlainForm form = double_sparsity(options, [&](const Query&) -> const AttentionLayer& { return sample; });
    const Compared compared = expect_conforms(std::string("double_sparsity:") + options, make, form);
    EXPECT_GT(compared.partial, compared.all / 3) << options;
  }
}

std::string usage_error(const std::string& options) {
  return message_of<UsageError>([&] { selector("double_sparsity", options)->check({64, 64}); });
}

TEST(DoubleSparsity, NeedsOneRankingFromElsewhere) {
  EXPECT_EQ(usage_error(""),
            "selector 'double_sparsity' needs a channel ranking: channels=FILE (JSON of its offline calibration) or "
            "calibrate=SAMPLE[+SAMPLE] (samples of the dump, which the study then leaves out)");
  EXPECT_EQ(usage_error("calibrate=a,channels=b.json"),
            "selector 'double_sparsity': both 'channels' and 'calibrate' are given, expected one source of the channel "
            "ranking");
  EXPECT_EQ(usage_error("calibrate=a,group_factor=5"),
            "selector 'double_sparsity': group_factor is 5, expected a divisor of head_dim, which is 64");
  EXPECT_EQ(selector("double_sparsity", "calibrate=first+second")->calibration_samples(),
            (std::vector<std::string>{"first", "second"}));
}

}  // namespace
}  // namespace attest::test
