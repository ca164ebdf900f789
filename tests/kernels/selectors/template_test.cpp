// The template selector against its formula, so that the template stays correct: new selectors are copied from it. This
// file is also the template of a selector's test: a plain form (a function from a query to estimate, kept sets and
// bytes) and one call of expect_conforms().
#include "tests/kernels/selectors/selector_test.h"

namespace attest {
extern const SelectorInfo template_info;
}

namespace attest::test {
namespace {

PlainForm plain_template(bool squared) {
  return [squared](const Query& query) {
    const auto length = [&](auto channel) {
      double square = 0;
      for (int d = 0; d < query.dim(); ++d) square += channel(d) * channel(d);
      return squared ? square : std::sqrt(square);
    };
    Plain plain;
    for (int h = 0; h < query.group(); ++h) {
      const double q = length([&](int d) { return query.q(h, d); });
      plain.estimate.emplace_back();
      for (std::int64_t j = 0; j < query.length(); ++j)
        plain.estimate.back().push_back(query.score_of(q * length([&](int d) { return query.k(j, d); })));
    }
    const std::vector<Row> estimate = plain.estimate;
    plain.keep = [=](double budget) {
      std::vector<Kept> kept;
      for (const Row& s : estimate) kept.push_back(best_n(s, std::max(1.0, budget)));
      return kept;
    };
    plain.bytes = [=](const std::vector<Kept>& kept) {
      return 2.0 * static_cast<double>(query.length()) + dense_bytes(query, kept_by_group(kept));
    };
    return plain;
  };
}

std::unique_ptr<Selector> make_template(const std::string& length) {
  OptionReader reader({.label = "", .name = "template", .options = {{"length", length}}});
  return template_info.make(reader);
}

TEST(Template, ConformsToItsFormula) {
  // A soft-cap makes the largest bounds equal or nearly equal, so rounding decides which tie.
  const auto uncapped = [](const Case& c) { return c.softcap == 0 && c.pattern != Pattern::ties; };
  for (const char* length : {"plain", "squared"}) {
    const Compared compared = expect_conforms(
        std::string("template:length=") + length, [&](const Case&) { return make_template(length); },
        plain_template(length == std::string("squared")), uncapped);
    EXPECT_GT(compared.partial, compared.all / 3);
  }
}

}  // namespace
}  // namespace attest::test
