// Learned sinks on the CPU: applied to the outputs after the sums over keys.
#include "kernels/attention/sinks.h"

namespace attest {

void add_sinks(const KvHead& head, std::vector<SettingOutputs>& outputs) {
  if (head.sinks.empty()) return;
  for (int r = 0; r < head.rows(); ++r) {
    SettingOutputs& row = outputs[static_cast<std::size_t>(r)];
    const double sink = head.sinks[static_cast<std::size_t>(r % head.group)];
    const auto dim = static_cast<std::size_t>(row.value_dim);
    for (std::size_t i = 0; i < row.lse.size(); ++i) {
      const double lse = lse_with_sink(row.lse[i], sink), share = std::exp(row.lse[i] - lse);
      for (std::size_t d = 0; d < dim; ++d) row.output[i * dim + d] *= share;
      row.lse[i] = lse;
    }
  }
}

}  // namespace attest
