// Queries gathered in row order and split into bfloat16 parts, bit for bit.
#include <gtest/gtest.h>

#include "kernels/attention/query_parts_cuda.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

class QueryPartsCuda : public OnGpuWith<Case> {};

TEST_P(QueryPartsCuda, AddUpToTheQueriesOfTheRows) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const QueryParts found = cuda_query_parts(on.rows, on.kv.type, on.q, on.kv.head_dim, gpu.arena, gpu.stream);
  EXPECT_EQ(found.rows, on.rows.num_rows);
  EXPECT_EQ(found.num_parts, on.queries.num_parts);
  EXPECT_EQ(gpu.download(found.values, on.query_values.size()), on.query_values);
  const std::vector<std::uint16_t> parts = gpu.download(found.parts, on.parts.size());
  EXPECT_EQ(parts, on.parts);
  for (std::size_t i = 0; i < on.query_values.size(); ++i) {
    double sum = 0;
    for (std::size_t at = i; at < parts.size(); at += on.query_values.size())
      sum += static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(parts[at]) << 16));
    ASSERT_EQ(sum, static_cast<double>(on.query_values[i])) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, QueryPartsCuda, testing::ValuesIn(all_device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
