// Blending the output with the mean value in place of dropped tokens, against its formula.
#include "kernels/attention/mean_value.h"

#include <gtest/gtest.h>

#include "tests/cases.h"
#include "tests/kernels/plain.h"
#include "tests/near.h"

namespace attest::test {
namespace {

// Adding at most 640 values of at most 60000 has an error of at most 640 * 60000 * 2^-53 = 4e-9.
constexpr double kTolerance = 1e-8;

TEST(MeanValue, BlendsEverySettingWithWhatTheRowSees) {
  constexpr int kSettings = 3;
  for (const Case& c : cases())
    for (const HeadData& data : heads_of(make_layer(c))) {
      Random random(3);
      RowMatrix<double> shares;
      shares.resize(data.head.rows(), kSettings);
      std::vector<SettingOutputs> outputs;
      for (int r = 0; r < data.head.rows(); ++r) {
        SettingOutputs& row = outputs.emplace_back();
        row.num_settings = kSettings;
        row.value_dim = c.value_dim;
        for (int i = 0; i < kSettings; ++i) {
          shares.row(r)[i] = i == 1 ? 1 : random.uniform();  // 1: nothing was dropped
          row.lse.push_back(random.normal());
          for (int d = 0; d < c.value_dim; ++d) row.output.push_back(random.normal());
        }
      }
      const std::vector<SettingOutputs> before = outputs;
      blend_mean_values(data.head, shares, outputs);
      for (int r = 0; r < data.head.rows(); ++r) {
        const auto row = static_cast<std::size_t>(r);
        const Query query{&data.head, r / data.head.group};
        EXPECT_EQ(outputs[row].lse, before[row].lse) << "the kept set's";
        for (int d = 0; d < c.value_dim; ++d) {
          double mean = 0;
          for (std::int64_t j = 0; j < query.length(); ++j) mean += query.v(j, d) / static_cast<double>(query.length());
          for (int i = 0; i < kSettings; ++i) {
            const double a = shares.row(r)[i], y = before[row].output_of(i)[static_cast<std::size_t>(d)];
            const double expected = a * y + (1 - a) * mean,
                         found = outputs[row].output_of(i)[static_cast<std::size_t>(d)];
            ASSERT_TRUE(relatively_near(found, expected, kTolerance)) << c << ", row " << r << ", setting " << i;
            if (i == 1) {
              ASSERT_EQ(found, y) << c;
            }
          }
        }
      }
    }
}

}  // namespace
}  // namespace attest::test
