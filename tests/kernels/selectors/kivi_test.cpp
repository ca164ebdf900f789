// KIVI against its formulas in both arithmetics (quant_arith = float32 and dump), its quantisation error, and its error
// messages.
#include "dumps/base/error.h"
#include "tests/kernels/plain_quantize.h"
#include "tests/kernels/selectors/selector_test.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

PlainForm kivi(const std::string& options) {
  const Options o(options);
  return [o](const Query& query) {
    const int bits = static_cast<int>(o.number("bits", 2));
    const bool dump = o.is("quant_arith", "dump");
    const std::int64_t g = o.number("group", 32), window = o.number("residual_length", 128), length = query.length();
    const std::int64_t nk = (length - 1) / window * window, nv = std::max<std::int64_t>(0, length - window - 1);
    const ElementType type = query.head->element_type;
    std::vector<Row> keys(static_cast<std::size_t>(length), Row(static_cast<std::size_t>(query.dim())));
    for (int d = 0; d < query.dim(); ++d) {
      for (std::int64_t begin = 0; begin < nk; begin += g) {
        Row group;
        for (std::int64_t j = begin; j < begin + g; ++j) group.push_back(query.k(j, d));
        group = plain_kivi(group, bits, dump, type);
        for (std::int64_t j = begin; j < begin + g; ++j)
          keys[static_cast<std::size_t>(j)][static_cast<std::size_t>(d)] = group[static_cast<std::size_t>(j - begin)];
      }
      for (std::int64_t j = nk; j < length; ++j)
        keys[static_cast<std::size_t>(j)][static_cast<std::size_t>(d)] = query.k(j, d);
    }
    Plain plain;
    for (int h = 0; h < query.group(); ++h) plain.estimate.push_back(query.scores_of(h, keys));
    plain.read_scores = plain.estimate;
    for (std::int64_t j = 0; j < nv; ++j) {
      Row value;
      for (std::int64_t begin = 0; begin < query.value_dim(); begin += g) {
        Row group;
        for (std::int64_t d = begin; d < begin + g; ++d) group.push_back(query.v(j, static_cast<int>(d)));
        for (double x : plain_kivi(group, bits, dump, type)) value.push_back(x);
      }
      plain.read_values.push_back(value);
    }
    plain.keep = [=](double) {
      return std::vector<Kept>(static_cast<std::size_t>(query.group()), Kept(static_cast<std::size_t>(length), 1));
    };
    plain.bytes = [=](const std::vector<Kept>&) {
      const double d = query.dim(), dv = query.value_dim(), l = static_cast<double>(length),
                   k = static_cast<double>(nk), v = static_cast<double>(nv);
      const double group = static_cast<double>(g);
      return k * d * bits / 8 + k / group * 4 * d + (l - k) * 2 * d + v * dv * bits / 8 + v * (dv / group) * 4 +
             (l - v) * 2 * dv;
    };
    return plain;
  };
}

TEST(Kivi, ConformsToItsFormulas) {
  const auto by_32 = [](const Case& c) { return c.value_dim % 32 == 0; };
  for (const char* options : {"", "bits=4", "quant_arith=dump", "residual_length=64"})
    expect_conforms("kivi", options, kivi(options), by_32);
  for (const char* options : {"group=16", "group=16,bits=4,quant_arith=dump", "group=1,residual_length=5"})
    expect_conforms("kivi", options, kivi(options));
}

// A group is never so small that quantisation is exact: where keys or values vary within a group, there is an error.
TEST(Kivi, QuantisedGroupsHaveAnError) {
  const Case c{"", 1, 2, 64, 64, ElementType::bfloat16, {128, 129, 200, 300}};
  for (const HeadData& data : heads_of(make_layer(c))) {
    Selection found;
    found.reset(data.head, {}, 1);
    const RankedScores exact = exact_scores(data.head);
    const std::vector<AscendingGrid> grids(data.visible.size(), AscendingGrid{{0}, {0}});
    selector("kivi")->select(data.head, exact, grids, found);
    for (int n = 0; n < data.head.num_queries; ++n) {
      const std::int64_t length = data.visible[static_cast<std::size_t>(n)];
      for (std::int64_t j = 0; j < (length - 1) / 128 * 128; ++j)
        EXPECT_NE(found.read_scores->row(n * 2)[j], exact.scores.row(n * 2)[j]) << "L " << length << ", token " << j;
      EXPECT_EQ(found.num_approximate[static_cast<std::size_t>(n)], length - 129);
      for (std::int64_t j = 0; j < length - 129; ++j)
        for (std::int64_t group = j * 64; group < (j + 1) * 64; group += 32) {
          const float* x = data.values.data() + group;
          EXPECT_FALSE(std::equal(x, x + 32, found.approximate_values.data() + group))
              << "L " << length << ", value " << j;
        }
    }
  }
}

TEST(Kivi, GroupMustDivideWindowAndValueDim) {
  EXPECT_EQ(message_of<UsageError>([] { selector("kivi", "group=48"); }),
            "selector 'kivi': group is 48, expected a divisor of residual_length, which is 128");
  EXPECT_EQ(message_of<UsageError>([] {
              selector("kivi")->check({80, 80});
            }),
            "selector 'kivi': group is 32, expected a divisor of value_dim, which is 80");
  selector("kivi")->check({80, 64});
}

}  // namespace
}  // namespace attest::test
