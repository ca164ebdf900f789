// The top-p bisection of the released kernel, on the device against the plain loop and against the CPU.
#include <gtest/gtest.h>

#include "kernels/rank/top_p_bisection.h"
#include "kernels/rank/top_p_bisection_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/plain_top_p.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

constexpr std::uint32_t kMask = 0xFFFFF, kOtherBits = 0xABC00000;
// Weights are double exponentials rounded to float32. Two maths libraries may differ in the last place.
constexpr double kNear = 0x1p-21;

/// Scores with and without a clear maximum at item 0, and with ties. Some orders omit a third of the items, with or
/// without item 0.
struct Scores {
  Rows<float> values;
  Rows<std::uint32_t> order;
  std::vector<int> query, counts;

  Scores() {
    Random random(20);
    for (int count : {1, 2, 0, 100, 511, 512, 513, 4097})
      for (int kind = 0; kind < 5; ++kind) {
        values.emplace_back();
        for (int i = 0; i < count; ++i)
          values.back().push_back(kind == 3 ? static_cast<float>(random.below(4)) : (kind + 1) * normal(random));
        if (kind == 1 && count > 0)
          values.back()[0] = *std::max_element(values.back().begin(), values.back().end()) + 0.5f;
        order.push_back(plain_order(values.back()));
        if (kind == 2) std::erase_if(order.back(), [](std::uint32_t item) { return item % 3 == 0; });
        if (kind == 4) std::erase_if(order.back(), [](std::uint32_t item) { return item % 3 == 1; });
        query.push_back(static_cast<int>(random.below(3)));
        counts.push_back(static_cast<int>(order.back().size()));
      }
  }
  /// Weights of all items by item; items that are not listed have weight 0.
  std::vector<float> weights(std::size_t r) const {
    std::vector<float> out(values[r].size(), 0.0f);
    double total = 0;
    const auto mass = [&](std::uint32_t item) {
      return std::exp(static_cast<double>(values[r][item]) - static_cast<double>(values[r][order[r][0]]));
    };
    for (std::uint32_t item : order[r]) total += mass(item);
    for (std::uint32_t item : order[r]) out[item] = static_cast<float>(mass(item) / total);
    return out;
  }
};

class TopPBisectionCuda : public OnGpu {};

TEST_F(TopPBisectionCuda, KeepsWhatIsAboveTheThreshold) {
  constexpr int kSettings = 4;
  const Scores scores;
  const std::vector<double> shares{0.3, 0.6, 0.85, 0.99, 0.5, 0.7, 0.9, 0.999, 0.1, 0.2, 0.95, 1};  // of three queries
  Gpu gpu;
  Rows<std::uint32_t> entries = scores.order;
  std::vector<int> all;
  for (std::vector<std::uint32_t>& row : entries)
    for (std::uint32_t& entry : row) entry |= kOtherBits;
  for (const std::vector<float>& row : scores.values) all.push_back(static_cast<int>(row.size()));
  RaggedRows<float> values = gpu.upload_rows(scores.values, 4099);
  values.counts = gpu.upload(scores.counts);
  const RaggedRows<Level> levels = gpu.take_rows<Level>(all, 4100);
  cuda_top_p_bisection_levels({gpu.upload_rows(entries, 4101).items, kMask}, values,
                              {gpu.upload(shares), kSettings, gpu.upload(scores.query)}, levels.items, gpu.arena,
                              gpu.stream);
  const Rows<Level> found = gpu.download_rows(levels);
  int some = 0;
  for (std::size_t r = 0; r < found.size(); ++r) {
    if (scores.order[r].empty()) continue;
    const std::vector<float> weights = scores.weights(r);
    Row thresholds;
    for (int i = 0; i < kSettings; ++i) {
      const double p = shares[static_cast<std::size_t>(scores.query[r] * kSettings + i)];
      thresholds.push_back(static_cast<double>(plain_threshold(weights, p)));
      EXPECT_EQ(thresholds.back(), static_cast<double>(top_p_bisection(weights, p))) << "row " << r;
    }
    std::vector<Level> listed(weights.size(), Level{0xFFFF});
    for (std::uint32_t item : scores.order[r]) {
      const Level level = listed[item] = found[r][item];
      const double weight = static_cast<double>(weights[item]);
      ASSERT_LE(level, kSettings);
      for (int i = 0; i < level; ++i)
        ASSERT_LE(weight, thresholds[static_cast<std::size_t>(i)] * (1 + kNear)) << "row " << r << ", item " << item;
      if (level == kSettings) continue;
      ++some;
      ASSERT_GT(weight, thresholds[level] * (1 - kNear)) << "row " << r << ", item " << item;
    }
    EXPECT_TRUE(found[r] == listed) << "row " << r << ": levels of items that the order does not list";
  }
  EXPECT_GT(some, 1000);
}

}  // namespace
}  // namespace attest::test
