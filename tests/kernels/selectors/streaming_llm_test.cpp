// StreamingLLM against its formula.
#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

PlainForm streaming_llm(double sink) {
  return [sink](const Query& query) {
    Plain plain;
    plain.keep = [=](double budget) {
      const auto length = static_cast<double>(query.length());
      Kept kept;
      for (double j = 0; j < length; ++j) kept.push_back(j < sink || j >= length - std::max(1.0, budget - sink));
      return std::vector<Kept>(static_cast<std::size_t>(query.group()), kept);
    };
    plain.bytes = [=](const std::vector<Kept>& kept) { return dense_bytes(query, kept_by_group(kept)); };
    return plain;
  };
}

TEST(StreamingLlm, ConformsToItsFormula) {
  const Compared compared = expect_conforms("streaming_llm", "", streaming_llm(4));
  EXPECT_GT(compared.partial, compared.all / 2);
  expect_conforms("streaming_llm", "sink=0", streaming_llm(0));
  expect_conforms("streaming_llm", "sink=200", streaming_llm(200));
}

}  // namespace
}  // namespace attest::test
