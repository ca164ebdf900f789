// Bounds of the scan error and false negatives against plain loops over the formulas, for every case and kind of ffd.
#include "experiments/study_view/scan_bound.h"

#include <gtest/gtest.h>

#include "kernels/selectors/registry.h"
#include "tests/cases.h"
#include "tests/near.h"

namespace attest::test {
namespace {

constexpr std::int64_t kBlock = 128;
constexpr double kOrder = 1e-9;  // of sums of up to 640 numbers
const std::vector<double> kLambdas = {0.25, 1, 2, 4, 6};

struct Kind {
  OptionPairs options;
  double delta;  ///< as typed
  double nats;   ///< per unit of it; 0: the softmax scale
  bool exact_peak = false, sequence = false, per_head = false;
};

std::vector<float> floats(const AttentionLayer& layer, const LayerBuffer& buffer) {
  std::vector<float> values(buffer.size() / size_of(layer.element_type));
  convert_to_float(layer.element_type, buffer.data(), values.size(), values.data());
  return values;
}

/// A row's keys, estimates and steps by block.
struct Plain {
  std::vector<double> query, exact, estimate;
  std::vector<std::vector<double>> steps;
};

Plain plain_row(const AttentionLayer& layer, const Kind& kind, std::size_t n, int h) {
  const int dim = layer.shape.head_dim;
  const std::vector<float> q = floats(layer, layer.q), k = floats(layer, layer.k);
  const std::int64_t position = layer.query_positions[n], first = layer.first_visible_key(position);
  const std::int64_t visible = position + 1 - first, covered = visible / kBlock * kBlock;
  const auto key = [&](std::int64_t j, int d) {
    return k[static_cast<std::size_t>(((h / layer.shape.group()) * layer.num_tokens + first + j) * dim + d)];
  };
  const auto score = [&](double dot) {
    const double s = layer.softmax_scale * dot, c = layer.logit_softcap;
    return c > 0 ? c * std::tanh(s / c) : s;
  };
  Plain row;
  for (int d = 0; d < dim; ++d)
    row.query.push_back(static_cast<double>(
        q[(n * static_cast<std::size_t>(layer.shape.num_query_heads) + static_cast<std::size_t>(h)) *
              static_cast<std::size_t>(dim) +
          static_cast<std::size_t>(d)]));
  for (std::int64_t b = 0; b < covered; b += kBlock) {
    std::vector<double>& steps = row.steps.emplace_back();
    for (int d = 0; d < dim; ++d) {
      float maximum = 0;
      for (std::int64_t j = kind.sequence ? 0 : b; j < (kind.sequence ? covered : b + kBlock); ++j)
        maximum = std::max(maximum, std::abs(key(j, d)));
      steps.push_back(static_cast<double>(std::max(maximum / 1.5f, 1e-8f)));
    }
  }
  for (std::int64_t j = 0; j < visible; ++j) {
    double exact = 0, estimate = 0;
    for (int d = 0; d < dim; ++d) {
      const double x = row.query[static_cast<std::size_t>(d)];
      exact += x * static_cast<double>(key(j, d));
      if (j >= covered) continue;
      const auto step =
          static_cast<float>(row.steps[static_cast<std::size_t>(j / kBlock)][static_cast<std::size_t>(d)]);
      const float code = std::clamp(std::nearbyint(key(j, d) / step + 1.5f), 0.0f, 3.0f);
      estimate += x * static_cast<double>((code - 1.5f) * step);
    }
    row.exact.push_back(score(exact));
    if (j < covered) row.estimate.push_back(score(estimate));
  }
  return row;
}

/// Largest of the first and the last block.
double ends(const std::vector<double>& scores, std::size_t covered) {
  double maximum = scores[0];
  for (std::size_t j = 0; j < covered; ++j)
    if (j < kBlock || j + kBlock >= covered) maximum = std::max(maximum, scores[j]);
  return maximum;
}

class ScanBound : public testing::TestWithParam<Case> {};

TEST_P(ScanBound, IsThatOfThePlainFormulas) {
  const std::vector<Kind> kinds = {
      {{}, 3, 1},
      {{{"delta_unit", "log2"}, {"gqa", "per_head"}}, 3, std::log(2.0), false, false, true},
      {{{"pseudo_max", "exact"}, {"scale", "sequence"}}, 2, 1, true, true},
      {{{"delta_unit", "unscaled"}}, 20, 0}};
  const AttentionLayer layer = make_layer(GetParam());
  const auto heads = static_cast<std::size_t>(layer.shape.num_query_heads);
  const int group = layer.shape.group();
  for (const Kind& kind : kinds) {
    const SelectorSpec spec{.label = "", .name = "ffd", .options = kind.options};
    OptionReader reader(spec);
    const FfdScan scan(reader);
    const std::unique_ptr<Selector> ffd = make_selector(spec);
    const std::vector<ScanBoundRow> rows = scan_bounds(layer, *ffd, scan, Setting{kind.delta}, kLambdas, 2);
    ASSERT_EQ(rows.size(), layer.query_positions.size() * heads);
    const double delta = kind.delta * (kind.nats > 0 ? kind.nats : layer.softmax_scale);
    for (std::size_t n = 0; n < layer.query_positions.size(); ++n) {
      std::vector<Plain> plain;
      for (std::size_t h = 0; h < heads; ++h) plain.push_back(plain_row(layer, kind, n, static_cast<int>(h)));
      const std::size_t covered = plain[0].estimate.size();
      std::vector<double> thresholds;
      for (const Plain& p : plain)
        thresholds.push_back(covered == 0 ? 0 : ends(kind.exact_peak ? p.exact : p.estimate, covered) - delta);
      const auto keeps = [&](std::size_t h, std::size_t block) {
        for (std::size_t j = block * kBlock; j < (block + 1) * kBlock; ++j)
          if (plain[h].estimate[j] >= thresholds[h]) return true;
        return false;
      };
      for (std::size_t h = 0; h < heads; ++h) {
        const Plain& p = plain[h];
        const ScanBoundRow& row = rows[n * heads + h];
        double norm2 = 0, largest = 0, mean = 0;
        for (const double x : p.query) norm2 += x * x;
        EXPECT_TRUE(relatively_near(row.alpha, std::sqrt(norm2 / layer.shape.head_dim), kOrder));
        ASSERT_EQ(row.at.size(), covered == 0 ? 0 : kLambdas.size());
        if (covered == 0) continue;
        std::vector<double> variances;
        for (const std::vector<double>& steps : p.steps) {
          double variance = 0;
          for (std::size_t d = 0; d < steps.size(); ++d) {
            variance += std::pow(layer.softmax_scale * p.query[d] * steps[d] / 2, 2);
            largest = std::max(largest, steps[d]);
          }
          variances.push_back(variance);
          mean += variance / static_cast<double>(p.steps.size());
        }
        const double paper = std::pow(layer.softmax_scale * largest / 2, 2) * norm2;
        EXPECT_TRUE(relatively_near(row.sigma_block, std::sqrt(mean), kOrder));
        EXPECT_TRUE(relatively_near(row.sigma_paper, std::sqrt(paper), kOrder));
        const double peak = *std::ranges::max_element(p.exact);
        for (std::size_t i = 0; i < kLambdas.size(); ++i) {
          const double lambda = kLambdas[i];
          const auto tail = [&](double variance) { return std::exp(-lambda * lambda / (2 * variance)); };
          ScanBoundAt expected{.bound_paper = std::min(1.0, 2 * tail(paper)), .lower_bound_paper = tail(paper)};
          for (const double variance : variances) {
            expected.bound_block += std::min(1.0, 2 * tail(variance)) / static_cast<double>(variances.size());
            expected.lower_bound_block += tail(variance) / static_cast<double>(variances.size());
          }
          double undecided = 0;  // tokens within rounding of a threshold
          for (std::size_t j = 0; j < covered; ++j) {
            if (std::abs(p.exact[j] - (peak - (delta - lambda))) < kOrder ||
                std::abs(p.estimate[j] - thresholds[h]) < kOrder)
              ++undecided;
            if (p.exact[j] < peak - (delta - lambda)) continue;
            ++expected.salient;
            if (p.estimate[j] < thresholds[h]) ++expected.missed;
            bool kept = keeps(h, j / kBlock);
            const std::size_t begin = h / static_cast<std::size_t>(group) * static_cast<std::size_t>(group);
            for (std::size_t other = begin; !kind.per_head && other < begin + static_cast<std::size_t>(group); ++other)
              kept = kept || keeps(other, j / kBlock);
            if (!kept) ++expected.dropped;
            expected.missed_bound_block += tail(variances[j / kBlock]);
            expected.missed_bound_paper += tail(paper);
          }
          const ScanBoundAt& at = row.at[i];
          EXPECT_NEAR(at.bound_block, expected.bound_block, kOrder);
          EXPECT_NEAR(at.bound_paper, expected.bound_paper, kOrder);
          EXPECT_NEAR(at.lower_bound_block, expected.lower_bound_block, kOrder);
          EXPECT_NEAR(at.lower_bound_paper, expected.lower_bound_paper, kOrder);
          EXPECT_NEAR(at.salient, expected.salient, undecided);
          EXPECT_NEAR(at.missed, expected.missed, undecided);
          EXPECT_NEAR(at.dropped, expected.dropped, undecided);
          EXPECT_NEAR(at.missed_bound_block, expected.missed_bound_block, undecided + 1e-6);
          EXPECT_NEAR(at.missed_bound_paper, expected.missed_bound_paper, undecided + 1e-6);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ScanBound, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace attest::test
