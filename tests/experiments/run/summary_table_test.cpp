// The summary of a study as text: what is said of span recall, and when.
#include "experiments/run/summary_table.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Summary small_summary(bool has_spans) {
  Summary summary;
  summary.columns = {{"mean_recall", "recall", "cosine"}};
  summary.rows = {{"tiny", "ffd", "ffd", "delta", "5", {0.99}}};
  summary.has_cells = true;
  summary.has_spans = has_spans;
  return summary;
}

TEST(SummaryTable, DefinesSpanRecallAndClaimsNothingOfAnswers) {
  const std::string text = summary_table(small_summary(true));
  EXPECT_TRUE(holds(text,
                    " Span recall is over the cells alone where exact attention puts 0.3 or more of its mass on "
                    "the evidence spans.\n"));
  EXPECT_FALSE(holds(text, "answer")) << "a study of a dump has none";
}

TEST(SummaryTable, SaysNothingOfSpansWhereThereAreNone) {
  EXPECT_FALSE(holds(summary_table(small_summary(false)), "pan recall"));
}

}  // namespace
}  // namespace attest
