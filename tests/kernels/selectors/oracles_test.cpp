// The oracle selectors against their rules on exact scores.
#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

PlainForm oracle(const std::string& name, const std::string& options) {
  const Options o(options);
  return [name, o](const Query& query) {
    const auto block = static_cast<std::size_t>(o.is("granularity", "block") ? o.number("block", 128) : 1);
    std::vector<Row> scores;
    for (int h = 0; h < query.group(); ++h) scores.push_back(query.exact_row(h));
    Plain plain;
    plain.keep = [=](double setting) {
      std::vector<Kept> kept;
      for (const Row& s : scores) {
        const Row best = block_max(s, block), mass = block_sum(softmax(s), block);
        Kept items;
        if (name == "topk") items = best_n(best, std::max(1.0, std::floor(setting / static_cast<double>(block))));
        if (name == "topp") items = smallest_share(mass, setting, Kept(mass.size(), 1));
        if (name == "topdelta")
          for (double x : best) items.push_back(x >= *std::max_element(s.begin(), s.end()) - setting);
        kept.push_back(tokens_of(items, block, query.length()));
      }
      return o.is("gqa", "union") ? united(kept) : kept;
    };
    plain.bytes = [=](const std::vector<Kept>& kept) { return dense_bytes(query, kept_by_group(kept)); };
    return plain;
  };
}

TEST(Oracles, ConformToTheirRules) {
  for (const char* name : {"topk", "topp", "topdelta"}) {
    EXPECT_TRUE(find_selector(name)->oracle);
    const Compared compared = expect_conforms(name, "", oracle(name, ""));
    EXPECT_GT(compared.partial, compared.all / 3) << name;
    for (const char* options : {"gqa=union", "granularity=block", "granularity=block,block=48,gqa=union"})
      expect_conforms(name, options, oracle(name, options), sums_are_distinct);
  }
}

TEST(Oracles, NoOtherSelectorIsOne) {
  for (const SelectorInfo* info : all_selectors()) {
    if (info->name.starts_with("top")) continue;
    EXPECT_FALSE(info->oracle) << info->name;
  }
}

}  // namespace
}  // namespace attest::test
