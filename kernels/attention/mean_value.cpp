// Mean value over the visible keys of each query, and its blend with the outputs.
#include "kernels/attention/mean_value.h"

#include "kernels/lane_sum.h"

namespace attest {
namespace {

/// Mean value over the keys that each query sees: [num_queries, Dv].
std::vector<double> visible_means(const KvHead& head) {
  std::vector<double> means;
  for (std::int64_t visible : head.visible)
    for (int d = 0; d < head.value_dim; ++d)
      means.push_back(lane_sum(static_cast<std::size_t>(visible),
                               [&](std::size_t j) {
                                 return static_cast<double>(
                                     head.values[static_cast<std::int64_t>(j) * head.value_dim + d]);
                               }) /
                      static_cast<double>(visible));
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
