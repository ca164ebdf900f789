// Cosine, relative error and log-sum-exp error of outputs: the device against the definitions.
#include <gtest/gtest.h>

#include "analysis/metrics/output_fidelity.h"
#include "tests/analysis/metrics/device_selection.h"
#include "tests/analysis/plain_metrics.h"
#include "tests/kernels/device_cases.h"
#include "tests/near.h"

namespace attest::test {
namespace {

// Sums in double; results are rounded to float32.
constexpr double kRounded = 0x1p-23;

/// Outputs [rows, settings]: close to the exact output, equal to it, or zero.
struct Outputs {
  int settings, dim;
  std::vector<float> exact, own, gradient;
  std::vector<double> exact_lse, own_lse;

  Outputs(std::size_t rows, int num_settings, int value_dim) : settings(num_settings), dim(value_dim) {
    Random random(61);
    for (std::size_t r = 0; r < rows; ++r) {
      exact_lse.push_back(5 * random.normal());
      for (int d = 0; d < dim; ++d) exact.push_back(r % 7 == 6 ? 0 : static_cast<float>(random.normal()));
      for (int d = 0; d < dim; ++d) gradient.push_back(static_cast<float>(random.normal()));
      for (int i = 0; i < settings; ++i) {
        const bool zero = (r + static_cast<std::size_t>(i)) % 5 == 4, same = i == 1;
        own_lse.push_back(same ? exact_lse.back() : 5 * random.normal());
        for (int d = 0; d < dim; ++d) {
          const float x = exact[r * static_cast<std::size_t>(dim) + static_cast<std::size_t>(d)];
          own.push_back(zero ? 0 : same ? x : x + 0.3f * static_cast<float>(random.normal()));
        }
      }
    }
  }
  Row exact_row(std::size_t r) const { return row(exact, r); }
  Row own_row(std::size_t cell) const { return row(own, cell); }
  Row gradient_row(std::size_t r) const { return row(gradient, r); }

 private:
  Row row(const std::vector<float>& of, std::size_t at) const {
    const auto first = of.begin() + static_cast<std::ptrdiff_t>(at) * dim;
    return Row(first, first + dim);
  }
};

void expect_near(float found, double expected, const std::string& what) {
  EXPECT_TRUE(near_metric(found, expected, kRounded)) << what;
}

/// Heads of weight 0 among them.
std::vector<double> some_weights(int heads) {
  std::vector<double> weights;
  for (int h = 0; h < heads; ++h) weights.push_back(0.7 * (h % 3) + 0.01 * h);
  return weights;
}

class OutputFidelityCuda : public OnGpuWith<Case> {};

TEST_P(OutputFidelityCuda, OfEveryRowAndSetting) {
  constexpr int kSettings = 6;  // more than the warps of a block
  DeviceChunk on(GetParam());
  DeviceSelection of(on, kSettings, true);
  const Outputs outputs(on.scores.size(), kSettings, on.on.kv.value_dim);
  of.exact.outputs = {on.gpu.upload(outputs.exact), on.gpu.upload(outputs.exact_lse), 1, outputs.dim};
  of.rows.outputs = {on.gpu.upload(outputs.own), on.gpu.upload(outputs.own_lse), kSettings, outputs.dim};
  const int heads = on.on.layer.shape.num_query_heads;
  const std::vector<double> weights = some_weights(heads);
  of.exact.head_weights = on.gpu.upload(weights);
  of.exact.num_query_heads = heads;
  of.exact.output_gradient = on.gpu.upload(outputs.gradient);
  float *recall = of.take_cells(), *error = of.take_cells(), *lse = of.take_cells(), *layer = of.take_cells(),
        *weighted = of.take_cells(), *loss = of.take_cells(), *weight = on.gpu.arena.take<float>(on.num_cells());
  auto* sums = on.gpu.arena.take<HeadSums>(on.num_cells() * kSettings);
  cuda_output_fidelity(of.rows, CudaCells({{"recall", recall},
                                           {"output_error", error},
                                           {"lse_error", lse},
                                           {"weighted_error_head", weighted},
                                           {"predicted_loss_head", loss},
                                           {"recall_layer", layer, sums}}));
  cuda_head_weight(of.exact, CudaCells({{"head_weight", weight}}));
  const std::vector<float> found = of.download_settings(recall), found_error = of.download_settings(error),
                           found_lse = of.download_settings(lse), found_weighted = of.download_settings(weighted),
                           found_loss = of.download_settings(loss), found_weight = on.download_cells(weight);
  const std::vector<HeadSums> all_sums = on.gpu.download(sums, on.num_cells() * kSettings);
  for (std::size_t cell = 0; cell < found.size(); ++cell) {
    const std::size_t r = cell / kSettings, i = cell % kSettings;
    const std::string where = " of row " + std::to_string(r) + ", setting " + std::to_string(i);
    const Row own = outputs.own_row(cell), exact = outputs.exact_row(r);
    const Metrics plain = plain_output_metrics(own, outputs.own_lse[cell], exact, outputs.exact_lse[r]);
    expect_near(found[cell], plain.at("recall"), "recall" + where);
    expect_near(found_error[cell], plain.at("output_error"), "output_error" + where);
    expect_near(found_lse[cell], plain.at("lse_error"), "lse_error" + where);
    const double own_weight = weights[static_cast<std::size_t>(on.on.cell[r] % heads)];
    EXPECT_EQ(found_weight[r], static_cast<float>(own_weight)) << where;
    const Row gradient = outputs.gradient_row(r);
    double square = 0, lost = 0;
    for (std::size_t d = 0; d < own.size(); ++d) {
      square += (own[d] - exact[d]) * (own[d] - exact[d]);
      lost += gradient[d] * (exact[d] - own[d]);
    }
    expect_near(found_weighted[cell], own_weight * std::sqrt(square), "weighted_error_head" + where);
    expect_near(found_loss[cell], lost, "predicted_loss_head" + where);
    const int place = of.place_of[static_cast<std::size_t>(on.on.query[r]) * kSettings + i];
    const HeadSums& head =
        all_sums[static_cast<std::size_t>(on.on.cell[r]) * kSettings + static_cast<std::size_t>(place)];
    const double expected[] = {dot(own, exact), dot(own, own), dot(exact, exact)};
    for (std::size_t t = 0; t < 3; ++t)
      EXPECT_LE(std::fabs(head[t] - expected[t]), 1e-12 * (dot(own, own) + dot(exact, exact))) << t << where;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OutputFidelityCuda, testing::ValuesIn(device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
