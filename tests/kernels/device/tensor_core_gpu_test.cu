// 16 x 16 matrix products of one warp from shared memory: every element of A, B and D is at its place.
#include <gtest/gtest.h>

#include "kernels/device/tensor_core.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr int kSide = 16;
constexpr int kPitch = 40;            // elements; a multiple of eight, but not a power of two
constexpr int kRow = 2, kColumn = 8;  // where the tile begins in shared memory

/// out [16, 16] = start + a b. a is [row][k]; b is [n][k] if by_columns, else [k][n]. Both are tiles in arrays of
/// [kSide + kRow, kPitch].
template <class T>
__global__ void product_kernel(const std::uint16_t* a, const std::uint16_t* b, bool by_columns, const float* start,
                               float* out) {
  __shared__ __align__(16) std::uint16_t tile_a[(kSide + kRow) * kPitch], tile_b[(kSide + kRow) * kPitch];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < (kSide + kRow) * kPitch; i += 32) tile_a[i] = a[i], tile_b[i] = b[i];
  __syncwarp();
  std::uint32_t of_a[4], of_b[4];
  load_a(of_a, tile_a + kRow * kPitch + kColumn, kPitch, lane);
  if (by_columns)
    load_b_columns(of_b, tile_b + kRow * kPitch + kColumn, kPitch, lane);
  else
    load_b_rows(of_b, tile_b + kRow * kPitch + kColumn, kPitch, lane);
  for (int half = 0; half < 2; ++half) {
    float d[4];
    const auto place = [&](int i) { return (lane / 4 + i / 2 * 8) * kSide + half * 8 + lane % 4 * 2 + i % 2; };
    for (int i = 0; i < 4; ++i) d[i] = start[place(i)];
    multiply_add<T>(d, of_a, of_b[2 * half], of_b[2 * half + 1]);
    for (int i = 0; i < 4; ++i) out[place(i)] = d[i];
  }
}

/// Small integers.
std::vector<std::uint16_t> integers(ElementType type, Random& random) {
  std::vector<std::uint16_t> bits((kSide + kRow) * kPitch);
  for (std::uint16_t& x : bits) {
    const auto value = static_cast<float>(random.below(41) - 20);
    x = type == ElementType::float16 ? float_to_float16(value) : float_to_bfloat16(value);
  }
  return bits;
}

double element(ElementType type, const std::vector<std::uint16_t>& tile, int row, int column) {
  const std::uint16_t bits = tile[(kRow + row) * kPitch + kColumn + column];
  return type == ElementType::float16 ? float16_to_float(bits) : bfloat16_to_float(bits);
}

class TensorCore : public OnGpuWith<std::tuple<bool, ElementType>> {};

TEST_P(TensorCore, MultipliesATile) {
  const auto [by_columns, type] = GetParam();
  Gpu gpu;
  Random random(6);
  const std::vector<std::uint16_t> a = integers(type, random), b = integers(type, random);
  std::vector<float> expected(kSide * kSide);
  for (float& x : expected) x = static_cast<float>(random.below(1000));
  const float* start = gpu.upload(expected);
  for (int row = 0; row < kSide; ++row)
    for (int n = 0; n < kSide; ++n)
      for (int k = 0; k < kSide; ++k)
        expected[row * kSide + n] += static_cast<float>(element(type, a, row, k) *
                                                        (by_columns ? element(type, b, n, k) : element(type, b, k, n)));
  auto* out = gpu.arena.take<float>(expected.size());
  const auto kernel = type == ElementType::float16 ? product_kernel<__half> : product_kernel<__nv_bfloat16>;
  kernel<<<1, 32, 0, gpu.stream>>>(gpu.upload(a), gpu.upload(b), by_columns, start, out);
  EXPECT_EQ(gpu.download(out, expected.size()), expected);
}

INSTANTIATE_TEST_SUITE_P(Storage, TensorCore,
                         testing::Combine(testing::Values(true, false),
                                          testing::Values(ElementType::float16, ElementType::bfloat16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "by_columns_" : "by_rows_") +
                                  std::string(name_of(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace attest::test
