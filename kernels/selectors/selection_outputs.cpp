// Calls the kernels of kernels/attention/ as the selection says, and counts the kept tokens of a group.
#include "kernels/selectors/selection_outputs.h"

#include <algorithm>
#include <numeric>

#include "kernels/attention/mean_value.h"
#include "kernels/attention/sinks.h"

namespace attest {

void selection_outputs(const KvHead& head, const RowMatrix<double>& exact, const Selection& selection, int settings,
                       std::vector<SettingOutputs>& out) {
  accumulate_settings(head, selection.read_scores == nullptr ? exact : *selection.read_scores, selection.levels,
                      {selection.approximate_values.empty() ? nullptr : selection.approximate_values.data(),
                       selection.num_approximate, selection.stored_values},
                      settings, out);
  add_sinks(head, out);
  if (!selection.mean_value_share.empty()) blend_mean_values(head, selection.mean_value_share, out);
}

std::vector<std::int64_t> tokens_kept(const KvHead& head, const Selection& selection, int query, int settings) {
  std::vector<std::int64_t> kept(static_cast<std::size_t>(settings) + 1, 0);
  for (std::int64_t j = 0; j < head.visible[static_cast<std::size_t>(query)]; ++j) {
    Level minimum = selection.levels.row(query * head.group)[j];
    for (int h = 1; h < head.group; ++h) minimum = std::min(minimum, selection.levels.row(query * head.group + h)[j]);
    ++kept[minimum];
  }
  kept.pop_back();  // tokens that no setting keeps
  std::partial_sum(kept.begin(), kept.end(), kept.begin());
  return kept;
}

}  // namespace attest
