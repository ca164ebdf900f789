// Mean value over the visible keys of each query, and its blend with the outputs.
#include "kernels/attention/mean_value.h"

#include <array>

#include "kernels/base/lane_sum.h"

namespace attest {
namespace {

/// Mean value over the keys that each query sees: [num_queries, Dv]. One pass over the values serves all queries, since
/// what a query sees is a prefix of what the next one does. The sums are those of lane_sum(), in its order.
std::vector<double> visible_means(const KvHead& head) {
  constexpr std::size_t kLanes = 8;
  const auto dim = static_cast<std::size_t>(head.value_dim);
  std::vector<double> sums(kLanes * dim), means;
  std::int64_t token = 0;
  for (std::int64_t visible : head.visible) {
    for (; token < visible; ++token) {
      const float* value = head.values + token * head.value_dim;
      double* lane = sums.data() + static_cast<std::size_t>(token) % kLanes * dim;
      for (std::size_t d = 0; d < dim; ++d) lane[d] += static_cast<double>(value[d]);
    }
    for (std::size_t d = 0; d < dim; ++d) {
      std::array<double, kLanes> lanes;
      for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = sums[l * dim + d];
      means.push_back(sum_of_lanes(lanes) / static_cast<double>(visible));
    }
  }
  return means;
}

}  // namespace

void blend_mean_values(const KvHead& head, const RowMatrix<double>& shares, std::vector<SettingOutputs>& outputs) {
  const std::vector<double> means = visible_means(head);
  const auto dim = static_cast<std::size_t>(head.value_dim);
  for (int r = 0; r < head.rows(); ++r) {
    SettingOutputs& row = outputs[static_cast<std::size_t>(r)];
    const double* mean = means.data() + static_cast<std::size_t>(r / head.group) * dim;
    for (int i = 0; i < row.num_settings; ++i) {
      const double share = shares.row(r)[i];
      double* o = row.output.data() + static_cast<std::size_t>(i) * dim;
      for (std::size_t d = 0; d < dim; ++d) o[d] = share * o[d] + (1 - share) * mean[d];
    }
  }
}

}  // namespace attest
