// Metrics of the whole model: a number per row and setting, made of the cells of all heads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/base/metric_info.h"

namespace attest {

struct ModelMetric {
  enum class Sum : std::uint8_t {
    norms,        ///< over layers of the root of the sum over heads of squares
    heads,        ///< over layers and heads
    margin_less,  ///< the row's margin less the sum over layers and heads
  };
  MetricInfo info;  ///< its axes are those of a metric of a layer; the model counts as one layer
  std::string_view of_heads;
  Sum sum;
};

inline constexpr std::array<ModelMetric, 3> kModelMetrics{
    {{{"weighted_error",
       MetricAxes::query_setting,
       "logits",
       Better::lower,
       "sum over layers of the root of the sum over heads of weighted_error_head's squares",
       {.min = 0}},
      "weighted_error_head",
      ModelMetric::Sum::norms},
     {{"predicted_loss", MetricAxes::query_setting, "logits", Better::lower,
       "what the row's errors take from the sum of the answer's margins, predicted: sum of predicted_loss_head"},
      "predicted_loss_head",
      ModelMetric::Sum::heads},
     {{"predicted_margin", MetricAxes::query_setting, "logits", Better::higher,
       "the row's margin less its predicted_loss; below 0 another token is predicted"},
      "predicted_loss_head",
      ModelMetric::Sum::margin_less}}};

/// Null for a metric that is not of the whole model.
const ModelMetric* find_model_metric(std::string_view name);

/// Adds up the layers of a sample, which may come in any order; the sum is in that of the layers. `margin` [N]: of
/// ModelMetric::Sum::margin_less alone; it must outlive this object.
class ModelSum {
 public:
  ModelSum(ModelMetric::Sum sum, std::size_t num_layers, std::size_t num_queries, std::size_t num_settings,
           std::span<const float> margin)
      : sum_(sum),
        layers_(num_layers),
        missing_(num_layers),
        cells_(num_queries * num_settings),
        num_settings_(num_settings),
        margin_(margin) {}

  /// `heads` [N, Hq, S] of layer y of the sample. Returns whether all layers are there.
  bool add(std::size_t y, std::span<const float> heads);
  /// [N, S]. Frees the layers.
  std::vector<float> take();

 private:
  ModelMetric::Sum sum_;
  std::vector<std::vector<double>> layers_;  // [Y][N, S]
  std::size_t missing_, cells_, num_settings_;
  std::span<const float> margin_;
};

}  // namespace attest
