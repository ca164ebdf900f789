// Sentences of an audit: what they say of one layer, and of layers that share an explanation.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/audit/audit_report.h"

namespace attest::test {
namespace {

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TestedHypothesis candidate(std::string text, double error, std::int64_t within = 8) {
  return {.kind = "mask", .text = std::move(text), .note = {}, .within = within, .error = error, .bound = 0.02};
}

/// A layer of one head with 10 rows, of which those that `found` explains are beyond rounding; without: none.
AuditedLayer layer(int number, std::optional<Explanation> found) {
  AuditedLayer one{
      .sample = "s",
      .audit = {
          .layer = number, .expected = "exact attention", .rows = 10, .heads = {}, .first = {}, .explanation = found}};
  const std::int64_t beyond = found ? found->failing : 0;
  one.audit.heads = {{.expected = {.error = 0.5, .lse_difference = NAN, .beyond = beyond},
                      .exact = {.error = 0.5, .lse_difference = NAN, .beyond = beyond}}};
  if (found) one.audit.first = FirstDeparture{7, 0, {.error = 0.5, .bound = 0.02, .lse_difference = NAN, .excess = 25}};
  return one;
}

Explanation explained(std::vector<TestedHypothesis> by, std::int64_t rows = 8) {
  Explanation found;
  found.failing = found.tested = rows;
  found.explaining = std::move(by);
  return found;
}

std::string text_of(const DumpAudit& audit) {
  DumpInfo dump;
  dump.path = "d.h5";
  return audit_text(
      {.dump = dump, .audit = audit, .expected = "exact attention", .device = "CPU, 1 thread", .roundings = 2});
}

TEST(AuditTextTest, LayersOfOneExplanationAreOneLine) {
  DumpAudit audit;
  audit.layers = {
      layer(0, {}), layer(1, explained({candidate("no mask", 0.001), candidate("no window", 0.003)})),
      layer(2, explained({candidate("no mask", 0.004), candidate("a shift", 0.006), candidate("no window", 0.008)})),
      layer(3, explained({candidate("no sinks", 0.002)}))};
  const std::string text = text_of(audit);
  EXPECT_TRUE(says(text, "does not agree: 24 of 40 rows leave rounding, in 3 of 4 layers\n"));
  EXPECT_TRUE(says(text, "layer 1, sample s, query at 7, head 0: relative error 0.5, rounding explains 0.02\n"));
  EXPECT_TRUE(says(text,
                   "layers 1 and 2: explained by: no mask, relative error up to 0.004 (all 16 rows beyond "
                   "rounding); as well by: no window, 0.008: these rows do not tell them apart\n"));
  EXPECT_TRUE(says(text, "layer 3: explained by: no sinks, relative error up to 0.002 (all 8 rows beyond rounding)\n"));
  EXPECT_FALSE(says(text, "a shift"));  // which layer 1 does not bear out
}

TEST(AuditTextTest, WhatIsNotExplainedOrNotTestedIsSaid) {
  Explanation none;
  none.failing = 900;
  none.tested = 256;
  none.nearest = {candidate("no mask", 0.3, 40), candidate("no window", 0.4, 3)};
  EXPECT_EQ(
      explanation_text(none, false),
      "no hypothesis explains the 256 tested of 900 rows beyond rounding; the nearest: no mask, within rounding on "
      "40 of them, relative error up to 0.3 where rounding explains 0.02");
  Explanation many = explained({candidate("a", 0.001), candidate("b", 0.001), candidate("c", 0.001),
                                candidate("d", 0.001), candidate("e", 0.001)});
  many.explaining_left_out = 4;
  many.screened = 6;
  EXPECT_EQ(
      explanation_text(many, true),
      "explained by: a, relative error up to 0.001 (all 8 rows beyond rounding); as well by: b, 0.001; c, 0.001; d, "
      "0.001; 1 more; 4 others, which were tested on the 6 worst rows alone: these rows do not tell them apart; rows "
      "of the prompt alone leave rounding, and an engine may attend before it stores keys");
}

TEST(AuditTextTest, AgreementClaimsNoMoreThanItsRows) {
  DumpAudit audit;
  audit.layers = {layer(0, {})};
  EXPECT_TRUE(says(text_of(audit), "agrees: rounding explains every row\n"));
  EXPECT_FALSE(says(text_of(audit), "do not tell it"));
  audit.layers.front().audit.expected = "k=fp8_e4m3,v=native";
  EXPECT_TRUE(says(text_of(audit), "exact attention is within rounding of every row, too"));
  audit.layers.front().audit.heads.front().exact.beyond = 3;
  EXPECT_FALSE(says(text_of(audit), "exact attention is within"));
}

}  // namespace
}  // namespace attest::test
