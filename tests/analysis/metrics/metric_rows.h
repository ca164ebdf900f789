// A row small enough to work out by hand: four tokens of probabilities 1/2, 1/4, 1/8, 1/8.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "analysis/metrics/rows.h"

namespace attest::test {

struct HandRow {
  std::vector<double> scores{std::log(1.0), std::log(4.0), std::log(2.0), std::log(1.0)};
  std::vector<double> probabilities{0.125, 0.5, 0.25, 0.125};
  std::vector<std::uint32_t> order{1, 2, 0, 3}, span_tokens;
  std::vector<double> output{3, 4};
  std::vector<Level> levels{2, 0, 1, 3};  // three settings; the last token is never kept
  std::vector<double> salient_deltas{1, 1, 2};
  ExactRow exact;
  SelectorRow row;

  HandRow() {
    exact.scores = scores;
    exact.probabilities = probabilities;
    exact.order = order;
    exact.output = output;
    exact.keys_lse = std::log(8.0);
    exact.lse = exact.keys_lse;
    exact.max = scores[1];
    row.exact = &exact;
    row.num_settings = 3;
    row.levels = levels;
    row.salient_deltas = salient_deltas;
    row.fixed_salient_delta = 5;
  }
  HandRow(const HandRow&) = delete;
};

using Values = std::vector<double>;

template <class Metric>
Values values_of(const SelectorRow& row, Metric metric, std::size_t count = 3) {
  Values out(count);
  metric(row, out);
  return out;
}

}  // namespace attest::test
