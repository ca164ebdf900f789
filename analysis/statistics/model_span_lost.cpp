// Joins the heads that keep each span token over layers.
#include "analysis/statistics/model_span_lost.h"

#include <cmath>

#include "kernels/base/not_defined.h"

namespace attest {

ModelSpanLost model_span_lost(const MetricArray& heads, std::span<const std::size_t> layers) {
  const auto queries = static_cast<std::size_t>(heads.shape[1]), settings = static_cast<std::size_t>(heads.shape[2]),
             tokens = static_cast<std::size_t>(heads.shape[3]);
  ModelSpanLost lost{.queries = heads.shape[1], .settings = heads.shape[2], .values = {}};
  for (std::size_t cell = 0; cell < queries * settings; ++cell) {
    std::size_t seen = 0, missed = 0;
    for (std::size_t t = 0; t < tokens; ++t) {
      bool sees = false, keeps = false;
      for (const std::size_t y : layers) {
        const float count = heads.values[(y * queries * settings + cell) * tokens + t];
        sees = sees || !std::isnan(count);
        keeps = keeps || count > 0;
      }
      seen += sees ? 1 : 0;
      missed += sees && !keeps ? 1 : 0;
    }
    lost.values.push_back(seen > 0 ? static_cast<double>(missed) / static_cast<double>(seen) : kNaN);
  }
  return lost;
}

std::optional<ModelSpanLost> model_span_lost(const ResultsFile& results, std::size_t dump, std::size_t sample,
                                             std::size_t selector, const std::set<int>& except) {
  const std::vector<std::uint8_t>& done = results.done(dump, sample, selector);
  const std::vector<int>& numbers = results.study().dumps[dump].samples[sample].layers;
  std::vector<std::size_t> layers;
  for (std::size_t y = 0; y < numbers.size(); ++y)
    if (done[y] != 0 && !except.contains(numbers[y])) layers.push_back(y);
  if (layers.empty()) return std::nullopt;
  const std::optional<MetricArray> heads = results.read(dump, sample, selector, "span_token_heads");
  if (!heads || heads->axes != MetricAxes::query_setting_token) return std::nullopt;
  return model_span_lost(*heads, layers);
}

}  // namespace attest
