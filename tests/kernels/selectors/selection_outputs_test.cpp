// Outputs of a selection with a mean value and a learned sink: the order in which both join the output.
#include "kernels/selectors/selection_outputs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attest::test {
namespace {

TEST(SelectionOutputs, ASinkFadesWhatIsKeptAndNotTheMeanValue) {
  const std::vector<float> keys{0, 0, 0}, values{1, 2, 9}, query{1}, sinks{2};
  const std::vector<std::int64_t> visible{3};
  KvHead head;
  head.head_dim = head.value_dim = head.group = head.num_queries = 1;
  head.length = 3;
  head.keys = keys.data(), head.values = values.data(), head.queries = query.data();
  head.visible = visible;
  head.sinks = sinks;
  RowMatrix<double> exact;
  exact.resize(1, 3);
  exact.row(0)[0] = 0, exact.row(0)[1] = 1, exact.row(0)[2] = 5;
  Selection selection;
  selection.reset(head, {}, 1);
  selection.levels.row(0)[0] = selection.levels.row(0)[1] = 0;
  selection.levels.row(0)[2] = 1;  // dropped
  selection.mean_value_share.resize(1, 1);
  selection.mean_value_share.row(0)[0] = 0.25;
  std::vector<SettingOutputs> out;
  selection_outputs(head, exact, selection, 1, out);

  const double sum = 1 + std::exp(1) + std::exp(2), kept = (1 * 1 + std::exp(1) * 2) / sum, mean = (1 + 2 + 9) / 3.0;
  EXPECT_NEAR(out[0].output[0], 0.25 * kept + 0.75 * mean, 1e-14);
  EXPECT_NEAR(out[0].lse[0], std::log(sum), 1e-14);
}

}  // namespace
}  // namespace attest::test
