// Metrics of the kept set, by hand.
#include "analysis/metrics/kept_set.h"

#include "tests/analysis/metrics/metric_rows.h"

namespace attest::test {
namespace {

TEST(KeptSet, MassAndTokens) {
  HandRow hand;
  EXPECT_EQ(values_of(hand.row, mass_recall), (Values{0.5, 0.75, 0.875}));
  EXPECT_EQ(values_of(hand.row, keep_ratio), (Values{0.25, 0.5, 0.75}));
}

TEST(KeptSet, SalientTokensFollowTheSetting) {
  HandRow hand;  // ln 4 - 1 = 0.39: tokens 1, 2; ln 4 - 2 < 0: all four
  EXPECT_EQ(values_of(hand.row, salient_ratio), (Values{0.5, 0.5, 1}));
  EXPECT_EQ(values_of(hand.row, salient_hit_rate), (Values{0.5, 1, 0.75}));
  EXPECT_EQ(values_of(hand.row, salient_hit_rate_fixed), (Values{0.25, 0.5, 0.75}));
  EXPECT_EQ(values_of(hand.row, missed_salient_mass), (Values{0.25, 0, 0.125}));
}

TEST(KeptSet, AThresholdOfExactlyTheScoreIsSalient) {
  HandRow hand;
  hand.salient_deltas = {0, 0, hand.scores[1] - hand.scores[2]};
  EXPECT_EQ(values_of(hand.row, salient_ratio), (Values{0.25, 0.25, 0.5}));
}

TEST(KeptSet, DroppedGapIsNotDefinedWhereNothingIsDropped) {
  HandRow hand;
  const Values gaps = values_of(hand.row, dropped_gap);
  EXPECT_DOUBLE_EQ(gaps[0], std::log(2.0));
  EXPECT_DOUBLE_EQ(gaps[1], std::log(4.0));
  EXPECT_DOUBLE_EQ(gaps[2], std::log(4.0));
  hand.levels = {0, 0, 0, 2};
  hand.row.kept.reset();  // of the levels before
  EXPECT_DOUBLE_EQ(values_of(hand.row, dropped_gap)[1], std::log(4.0));
  EXPECT_TRUE(std::isnan(values_of(hand.row, dropped_gap)[2]));
}

TEST(KeptSet, Spans) {
  HandRow hand;
  hand.span_tokens = {2, 3};
  hand.exact.span_tokens = hand.span_tokens;
  hand.exact.sample_has_spans = true;
  EXPECT_EQ(values_of(hand.row, span_keep), (Values{0, 0.5, 0.5}));
  EXPECT_EQ(values_of(hand.row, span_mass_kept), (Values{0, 0.25, 0.25}));
}

TEST(KeptSet, SpansThatTheQueryDoesNotSeeAreNotDefined) {
  HandRow hand;
  hand.exact.sample_has_spans = true;
  for (double x : values_of(hand.row, span_keep)) EXPECT_TRUE(std::isnan(x));
  for (double x : values_of(hand.row, span_mass_kept)) EXPECT_TRUE(std::isnan(x));
}

}  // namespace
}  // namespace attest::test
