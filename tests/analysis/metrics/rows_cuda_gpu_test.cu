// Helpers of the device metrics: cells of a metric, offsets of settings, bytes read by a stage.
#include <gtest/gtest.h>

#include "analysis/metrics/rows_cuda.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/selectors/device_chunk.h"

namespace attest::test {
namespace {

TEST(CudaCellsTest, AreFoundByTheMetricsName) {
  float lse = 0, recall = 0;
  HeadSums sums{};
  const CudaCells cells({{"lse", &lse}, {"recall_layer", &recall, &sums}});
  EXPECT_EQ(cells.of("lse"), &lse);
  EXPECT_EQ(cells.of("recall_layer"), &recall);
  EXPECT_EQ(cells.head_sums_of("recall_layer"), &sums);
  EXPECT_EQ(cells.head_sums_of("lse"), nullptr);
  EXPECT_EQ(cells.of("span_mass"), nullptr);
  EXPECT_EQ(cells.head_sums_of("span_mass"), nullptr);
  EXPECT_EQ(CudaCells({}).of("lse"), nullptr);
}

__global__ void offsets_kernel(DeviceRows rows, SettingOffsets offsets, std::int64_t* out) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(threadIdx.x);
  out[row * offsets.count + i] = offsets.at(rows, row, i);
}

class RowsCuda : public OnGpuWith<Case> {};

TEST_P(RowsCuda, SettingsHaveOffsetsByQuery) {
  constexpr int kCount = 3, kTotal = 5;
  DeviceChunk on(GetParam());
  Random random(30);
  std::vector<int> offsets;
  for (std::int64_t i = 0; i < on.chunk.num_queries * kCount; ++i)
    offsets.push_back(static_cast<int>(random.below(kTotal)));
  const std::size_t cells = on.scores.size() * kCount;
  auto* out = on.gpu.arena.take<std::int64_t>(cells);
  offsets_kernel<<<on.chunk.rows.num_rows, kCount, 0, on.gpu.stream>>>(on.chunk.rows,
                                                                       {on.gpu.upload(offsets), kCount, kTotal}, out);
  const std::vector<std::int64_t> found = on.gpu.download(out, cells);
  for (std::size_t i = 0; i < cells; ++i) {
    const std::size_t r = i / kCount, n = static_cast<std::size_t>(on.on.query[r]);
    ASSERT_EQ(found[i], std::int64_t{on.on.cell[r]} * kTotal + offsets[n * kCount + i % kCount]) << "row " << r;
  }
}

TEST_P(RowsCuda, StagesReadEachKeyOnce) {
  DeviceChunk on(GetParam());
  const AttentionLayer& layer = on.on.layer;
  double pairs = 0, tokens = 0;
  for (const std::vector<float>& row : on.scores) pairs += static_cast<double>(row.size());
  for (const HeadData& head : on.on.heads) tokens += static_cast<double>(head.visible.back());
  const double bytes = layer.element_type == ElementType::float32 ? 4 : 2;
  EXPECT_EQ(row_tokens(on.chunk), pairs);
  EXPECT_EQ(key_bytes(on.chunk), tokens * layer.shape.head_dim * bytes);
  EXPECT_EQ(value_bytes(on.chunk), tokens * layer.shape.value_dim * bytes);
}

INSTANTIATE_TEST_SUITE_P(Cases, RowsCuda, testing::ValuesIn(device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
