// Sorting a row in one thread block against std::stable_sort, for several block sizes.
#include <gtest/gtest.h>

#include "kernels/rank/sort_in_block.cuh"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

template <int kThreads>
__global__ void __launch_bounds__(kThreads) sort_kernel(RowValues in, DeviceMatrix<std::uint32_t> out) {
  extern __shared__ __align__(16) std::uint32_t shared[];
  const int row = static_cast<int>(blockIdx.x);
  BlockSort<kThreads>(shared, in.max_count).sort(in, row, [to = out.row(row)](int item, int place) {
    to[place] = static_cast<std::uint32_t>(item);
  });
}

template <int kThreads>
void expect_sorted(const std::vector<int>& counts, std::int64_t stride) {
  Random random(kThreads);
  Rows<float> rows;
  std::vector<int> all_counts;
  for (const ValueKind& kind : kValueKinds)
    for (int count : counts) {
      rows.push_back(values_of(kind, static_cast<std::size_t>(count), random));
      all_counts.push_back(count);
    }
  Gpu gpu;
  const RaggedRows<float> in = gpu.upload_rows(rows, stride);
  const RaggedRows<std::uint32_t> out = gpu.take_rows<std::uint32_t>(all_counts, stride);
  const std::size_t bytes = BlockSort<kThreads>::bytes(in.max_count);
  ASSERT_LE(in.max_count, BlockSort<kThreads>::kMaxItems);
  allow_shared_memory(sort_kernel<kThreads>, bytes);
  sort_kernel<kThreads><<<in.rows, kThreads, bytes, gpu.stream>>>(in, out.items);
  ATTEST_CUDA_LAUNCHED(sort_kernel);
  const Rows<std::uint32_t> found = gpu.download_rows(out);
  for (std::size_t r = 0; r < rows.size(); ++r)
    EXPECT_TRUE(found[r] == plain_order(rows[r]))
        << kValueKinds[r / counts.size()].name << ", " << rows[r].size() << " values, rows " << stride << " apart";
}

class BlockSortCuda : public OnGpu {};

// Counts up to the maximum that a block of this size sorts. Items are read one by one if rows are not aligned.
TEST_F(BlockSortCuda, OfAFewWarps) {
  const std::vector<int> counts{0, 1, 2, 63, 64, 65, 129, 1000, 2047, 2048};
  for (std::int64_t stride : {2048, 2051}) expect_sorted<64>(counts, stride);
}

TEST_F(BlockSortCuda, OfEightWarps) {
  const std::vector<int> counts{3, 255, 256, 257, 2048, 5001, 8191, 8192};
  for (std::int64_t stride : {8192, 8193}) expect_sorted<256>(counts, stride);
}

TEST_F(BlockSortCuda, OfAWholeBlock) {
  int device = 0, maximum = 0;
  ATTEST_CUDA(cudaGetDevice(&device));
  ATTEST_CUDA(cudaDeviceGetAttribute(&maximum, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const bool whole = BlockSort<1024>::bytes(BlockSort<1024>::kMaxItems) <= static_cast<std::size_t>(maximum);
  const int longest = whole ? BlockSort<1024>::kMaxItems : 16384;
  expect_sorted<1024>({1, 1023, 10000, longest - 1, longest}, longest);
}

__global__ void image_kernel(const float* values, int count, std::uint32_t* images) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    images[i] = descending_sort_key(values[i]);
}

// Checks every pair of a descending list. The two zeros are equal.
TEST_F(BlockSortCuda, ImagesAscendAsValuesDescend) {
  const std::vector<float> values{kInfinity, 3e38f, 2,       1.0000001f, 1,  1e-38f, 1e-45f,
                                  0.0f,      -0.0f, -1e-45f, -1,         -2, -3e38f, -kInfinity};
  Gpu gpu;
  auto* images = gpu.arena.take<std::uint32_t>(values.size());
  image_kernel<<<1, 32, 0, gpu.stream>>>(gpu.upload(values), static_cast<int>(values.size()), images);
  const std::vector<std::uint32_t> found = gpu.download(images, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < values.size(); ++j)
      EXPECT_EQ(found[i]<found[j], values[i]> values[j]) << values[i] << " and " << values[j];
}

}  // namespace
}  // namespace attest::test
