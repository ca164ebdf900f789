// Entry levels of a whole grid on the device, against each rule applied item by item and against the CPU.
#include <gtest/gtest.h>

#include "kernels/rank/entry_levels.h"
#include "kernels/rank/entry_levels_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

constexpr std::uint32_t kMask = 0xFFFFF, kOtherBits = 0xABC00000;
constexpr int kQueries = 5;
constexpr Level kUntouched = 0xFFFF;
// Masses are float32 exponentials. A share met this closely may be reached one item earlier or later.
constexpr double kNear = 0x1p-20;

/// Rows of every kind that a rule may see, with lengths around the 2048 items that a thread block sums at a time. Each
/// row has a query and an order of its items; the order of every fifth row lists only some of them.
struct Items {
  Rows<float> values;
  Rows<std::uint32_t> order;
  std::vector<int> query, counts;

  explicit Items(bool masses) {
    Random random(19);
    for (int count : {1, 0, 2, 60, 255, 256, 257, 2047, 2048, 2049, 9000})
      for (int kind = 0; kind < 3; ++kind) {
        values.emplace_back();
        for (int i = 0; i < count; ++i) {
          const double whole = static_cast<double>(random.below(kind == 1 ? 4 : 1 << 20));
          const double value = masses      ? (kind == 2 && random.below(2) == 0 ? 0 : whole)
                               : kind == 1 ? whole
                                           : 3 * random.normal();
          values.back().push_back(static_cast<float>(value));
        }
        order.push_back(plain_order(values.back()));
        if (order.size() % 5 == 0)
          order.back().erase(order.back().begin() + count / 7, order.back().begin() + count / 3);
        query.push_back(static_cast<int>(random.below(kQueries)));
        counts.push_back(static_cast<int>(order.back().size()));
      }
  }
  std::size_t rows() const { return values.size(); }
  double value(std::size_t r, std::uint32_t item) const { return static_cast<double>(values[r][item]); }

  /// Uploads the values; the count of a row is the number of items in its order.
  RaggedRows<float> upload_values(Gpu& gpu) const {
    RaggedRows<float> on_device = gpu.upload_rows(values, 9001);
    on_device.counts = gpu.upload(counts);
    return on_device;
  }
  RowOrder upload_order(Gpu& gpu) const {
    Rows<std::uint32_t> entries = order;
    for (std::vector<std::uint32_t>& row : entries)
      for (std::uint32_t& entry : row) entry |= kOtherBits;
    return {gpu.upload_rows(entries, 9003).items, kMask};
  }
  RaggedRows<Level> take_levels(Gpu& gpu) const {
    std::vector<int> all;
    for (const std::vector<float>& row : values) all.push_back(static_cast<int>(row.size()));
    return gpu.take_rows<Level>(all, 9002);
  }
  template <class T>
  QuerySettings<T> upload_settings(const Rows<T>& of_query, Gpu& gpu) const {
    const int count = static_cast<int>(of_query[0].size());
    return {gpu.upload_rows(of_query, count).items.data, count, gpu.upload(query)};
  }
};

/// Ascending settings of each query: `first` for query 0, and `first` times (1 - 0.1 n) for query n.
template <class T>
Rows<T> grids(const std::vector<T>& first) {
  Rows<T> all;
  for (int n = 0; n < kQueries; ++n) {
    all.push_back(first);
    for (T& x : all.back()) x = static_cast<T>(x * (1 - 0.1 * n));
  }
  return all;
}

class EntryLevelsCuda : public OnGpu {};

TEST_F(EntryLevelsCuda, OfThresholds) {
  const Items items(false);
  Rows<double> deltas = grids<double>({0, 0.5, 2, 2, 7, 100});
  for (std::vector<double>& row : deltas) row.back() = std::numeric_limits<double>::infinity();
  deltas[3].back() = 1;
  std::sort(deltas[3].begin(), deltas[3].end());
  std::vector<float> peaks;
  for (std::size_t r = 0; r < items.rows(); ++r) peaks.push_back(r % 4 == 0 ? -1 : 2 + 0.1f * static_cast<float>(r));
  Gpu gpu;
  RaggedRows<float> values = gpu.upload_rows(items.values, 9001);
  const RaggedRows<Level> levels = items.take_levels(gpu);
  cuda_threshold_levels(values, gpu.upload(peaks), items.upload_settings(deltas, gpu), levels.items, gpu.stream);
  const Rows<Level> found = gpu.download_rows(levels);
  for (std::size_t r = 0; r < items.rows(); ++r) {
    const std::vector<double>& own = deltas[static_cast<std::size_t>(items.query[r])];
    Row thresholds;
    for (double delta : own) thresholds.push_back(static_cast<double>(peaks[r]) - delta);
    std::vector<Level> expected, of_cpu(items.values[r].size());
    for (float value : items.values[r]) {
      Level level = 0;
      while (level < own.size() && !(static_cast<double>(value) >= thresholds[level])) ++level;
      expected.push_back(level);
    }
    threshold_levels(Row(items.values[r].begin(), items.values[r].end()), thresholds, of_cpu);
    EXPECT_TRUE(found[r] == expected) << "row " << r;
    EXPECT_TRUE(found[r] == of_cpu) << "row " << r;
  }
}

TEST_F(EntryLevelsCuda, OfTheBestN) {
  const Items items(false);
  const Rows<int> n = grids<int>({0, 1, 1, 2, 60, 250, 2048, 9000});
  Gpu gpu;
  const RaggedRows<Level> levels = items.take_levels(gpu);
  cuda_top_n_levels(items.upload_order(gpu), items.upload_values(gpu), items.upload_settings(n, gpu), levels.items,
                    gpu.stream);
  const Rows<Level> found = gpu.download_rows(levels);
  for (std::size_t r = 0; r < items.rows(); ++r) {
    const std::vector<int>& own = n[static_cast<std::size_t>(items.query[r])];
    std::vector<Level> expected(items.values[r].size(), kUntouched), of_cpu = expected;
    for (std::size_t place = 0; place < items.order[r].size(); ++place) {
      Level level = 0;
      while (level < own.size() && static_cast<int>(place) >= own[level]) ++level;
      expected[items.order[r][place]] = level;
    }
    top_n_levels_of(items.order[r], std::vector<std::int64_t>(own.begin(), own.end()), of_cpu);
    EXPECT_TRUE(found[r] == expected) << "row " << r;
    EXPECT_TRUE(found[r] == of_cpu) << "row " << r;
  }
}

const std::vector<double> kShares{1e-9, 0.2, 0.5, 0.5, 0.85, 0.999, 1};

// Masses are integers, so every sum and every level is exact.
TEST_F(EntryLevelsCuda, OfSharesOfTheMass) {
  const Items items(true);
  const Rows<double> shares = grids(kShares);
  Gpu gpu;
  const RaggedRows<Level> levels = items.take_levels(gpu);
  cuda_top_p_levels(items.upload_order(gpu), items.upload_values(gpu), ItemMass::value,
                    items.upload_settings(shares, gpu), levels.items, gpu.stream);
  const Rows<Level> found = gpu.download_rows(levels);
  for (std::size_t r = 0; r < items.rows(); ++r) {
    const std::vector<double>& own = shares[static_cast<std::size_t>(items.query[r])];
    std::vector<Level> expected(items.values[r].size(), kUntouched), of_cpu = expected;
    double total = 0, ahead = 0;
    for (std::uint32_t item : items.order[r]) total += items.value(r, item);
    for (std::size_t place = 0; place < items.order[r].size(); ++place) {
      const std::uint32_t item = items.order[r][place];
      Level level = 0;
      while (place > 0 && level < own.size() && ahead >= (own[level] - 1e-6) * total) ++level;
      expected[item] = level;
      ahead += items.value(r, item);
    }
    top_p_levels_of(Row(items.values[r].begin(), items.values[r].end()), items.order[r], own, of_cpu);
    EXPECT_TRUE(found[r] == expected) << "row " << r;
    EXPECT_TRUE(found[r] == of_cpu) << "row " << r;
  }
}

TEST_F(EntryLevelsCuda, OfSharesOfTheSoftmax) {
  const Items items(false);
  const Rows<double> shares = grids(kShares);
  Gpu gpu;
  const RaggedRows<Level> levels = items.take_levels(gpu);
  cuda_top_p_levels(items.upload_order(gpu), items.upload_values(gpu), ItemMass::exponential,
                    items.upload_settings(shares, gpu), levels.items, gpu.stream);
  const Rows<Level> found = gpu.download_rows(levels);
  for (std::size_t r = 0; r < items.rows(); ++r) {
    const std::vector<double>& own = shares[static_cast<std::size_t>(items.query[r])];
    const std::vector<std::uint32_t>& order = items.order[r];
    const auto mass = [&](std::uint32_t item) { return std::exp(items.value(r, item) - items.value(r, order[0])); };
    double total = 0, ahead = 0;
    for (std::uint32_t item : order) total += mass(item);
    for (std::size_t place = 0; place < order.size(); ++place) {
      const Level level = found[r][order[place]];
      ASSERT_LE(level, own.size());
      const double earlier = level == 0 ? -1 : own[level - 1u], reached = level == own.size() ? 2 : own[level];
      ASSERT_TRUE(place > 0 || level == 0) << "row " << r;
      ASSERT_GE(ahead, (earlier - 1e-6 - kNear) * total) << "row " << r << ", place " << place;
      ASSERT_TRUE(place == 0 || ahead <= (reached - 1e-6 + kNear) * total) << "row " << r << ", place " << place;
      ahead += mass(order[place]);
    }
    std::vector<Level> listed(items.values[r].size(), kUntouched);
    for (std::uint32_t item : order) listed[item] = found[r][item];
    EXPECT_TRUE(found[r] == listed) << "row " << r << ": levels of items that the order does not list";
  }
}

// Masses that fall to less than the last bit of their sum, and shares that are as close together: sums of neighbouring
// items differ by how they were added, and some decrease along the order.
TEST_F(EntryLevelsCuda, OfSharesThatRoundingSeparates) {
  Random random(3);
  Rows<float> values(24);
  Rows<std::uint32_t> order;
  for (std::vector<float>& row : values) {
    for (int i = 0; i < 2040; ++i)
      row.push_back(static_cast<float>(std::exp2(-i * 0.05) * static_cast<double>(random.below(1 << 20))));
    order.push_back(plain_order(row));
  }
  std::vector<double> shares;
  for (int bits = -40; bits <= 40; ++bits) shares.push_back(1 + 1e-6 + bits * 0x1p-52);
  Gpu gpu;
  const std::vector<int> counts(values.size(), 2040), query(values.size(), 0);
  const RaggedRows<Level> levels = gpu.take_rows<Level>(counts, 2048);
  cuda_top_p_levels({gpu.upload_rows(order, 2048).items}, gpu.upload_rows(values, 2048), ItemMass::value,
                    {gpu.upload(shares), static_cast<int>(shares.size()), gpu.upload(query)}, levels.items, gpu.stream);
  const Rows<Level> found = gpu.download_rows(levels);
  for (std::size_t r = 0; r < values.size(); ++r) {
    std::vector<Level> along;
    for (const std::uint32_t item : order[r]) along.push_back(found[r][item]);
    EXPECT_TRUE(std::ranges::is_sorted(along)) << "row " << r;
    EXPECT_GT(along.back(), 30) << "row " << r << ": the shares are not about its sums";
  }
}

// -inf is a valid estimate. Next to finite estimates it has no mass; if all are -inf, they share the mass equally.
TEST_F(EntryLevelsCuda, OfMinusInfinity) {
  const Rows<float> values{{-kInfinity, -kInfinity, -kInfinity}, {1, -kInfinity, 1, -kInfinity}};
  const Rows<std::uint32_t> order{{0, 1, 2}, {0, 2, 1, 3}};
  const Rows<Level> expected{{0, 1, 2}, {0, 3, 1, 3}};
  Gpu gpu;
  const RaggedRows<Level> levels = gpu.take_rows<Level>({3, 4}, 8);
  const QuerySettings<double> shares{gpu.upload(std::vector<double>{0.3, 0.6, 1}), 3,
                                     gpu.upload(std::vector<int>{0, 0})};
  cuda_top_p_levels({gpu.upload_rows(order, 8).items}, gpu.upload_rows(values, 8), ItemMass::exponential, shares,
                    levels.items, gpu.stream);
  EXPECT_EQ(gpu.download_rows(levels), expected);
  const QuerySettings<double> deltas{gpu.upload(std::vector<double>{0, 5, static_cast<double>(kInfinity)}), 3,
                                     gpu.upload(std::vector<int>{0, 0})};
  cuda_threshold_levels(gpu.upload_rows(values, 8), gpu.upload(std::vector<float>{-kInfinity, 1}), deltas, levels.items,
                        gpu.stream);
  EXPECT_EQ(gpu.download_rows(levels), (Rows<Level>{{0, 0, 0}, {0, 2, 0, 2}}));
}

}  // namespace
}  // namespace attest::test
