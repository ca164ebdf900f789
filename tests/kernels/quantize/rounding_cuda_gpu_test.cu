// The device's rounding against exponent arithmetic, and its division against the host's.
#include <gtest/gtest.h>

#include "kernels/quantize/rounding_cuda.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr int kThreads = 256;

struct Rounded {
  float as_type, as_e4m3, as_code;
};

__global__ void round_kernel(ElementType type, const float* x, Rounded* out) {
  const int i = blockIdx.x * kThreads + static_cast<int>(threadIdx.x);
  out[i] = {rounded_to(type, x[i]), rounded_to_e4m3(x[i]), rounded_code(x[i], -127, 127)};
}

/// Numbers of every magnitude that a quantiser sees, borders of the formats, and numbers halfway between two codes.
std::vector<float> numbers() {
  Random random(22);
  std::vector<float> x{0,          448,       449,          464,     480,      1e4f,     65503,
                       65504,      65519,     65520,        65536,   1e30f,    1e-30f,   0x1p-10f,
                       0x1p-9f,    0x1.8p-9f, 0x1.7p-7f,    0x1p-6f, 0x1p-24f, 0x1p-25f, 0x1.1p-25f,
                       0x1.8p-24f, 0x1p-14f,  0x1.ffcp-15f, 126.5f,  127.5f,   1e9f};
  for (int i = 0; i < 254; ++i) x.push_back(static_cast<float>(i) / 2);
  while (x.size() < 20 * kThreads / 2) x.push_back(static_cast<float>(std::exp(random.uniform(-40, 30))));
  x.resize(20 * kThreads / 2);
  for (std::size_t i = 0; i < 20 * kThreads / 2; ++i) x.push_back(-x[i]);
  return x;
}

class RoundingCuda : public OnGpuWith<ElementType> {};

TEST_P(RoundingCuda, AgreesWithArithmeticOnExponents) {
  Gpu gpu;
  const std::vector<float> x = numbers();
  auto* rounded = gpu.arena.take<Rounded>(x.size());
  round_kernel<<<static_cast<unsigned>(x.size() / kThreads), kThreads, 0, gpu.stream>>>(GetParam(), gpu.upload(x),
                                                                                        rounded);
  const std::vector<Rounded> found = gpu.download(rounded, x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(found[i].as_type, to_type(GetParam(), x[i])) << x[i];
    ASSERT_EQ(found[i].as_e4m3, to_e4m3(x[i])) << x[i];
    ASSERT_EQ(found[i].as_code, std::clamp(half_even(x[i]), -127.0, 127.0)) << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RoundingCuda,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

__global__ void divide_kernel(const float* a, const float* b, float* plain, float* rarely, std::uint8_t* divides) {
  const int i = blockIdx.x * kThreads + static_cast<int>(threadIdx.x);
  plain[i] = quotient<true>(a[i], b[i]);
  rarely[i] = quotient<false>(a[i], b[i]);
  divides[i] = in_fast_range(b[i]) ? 1 : 0;
}

struct Quotients {
  std::vector<float> plain, rarely;
  std::vector<std::uint8_t> divides;
};

Quotients quotients(const std::vector<float>& a, const std::vector<float>& b, Gpu& gpu) {
  float *plain = gpu.arena.take<float>(a.size()), *rarely = gpu.arena.take<float>(a.size());
  auto* divides = gpu.arena.take<std::uint8_t>(a.size());
  divide_kernel<<<static_cast<unsigned>(a.size() / kThreads), kThreads, 0, gpu.stream>>>(gpu.upload(a), gpu.upload(b),
                                                                                         plain, rarely, divides);
  return {gpu.download(plain, a.size()), gpu.download(rarely, a.size()), gpu.download(divides, a.size())};
}

class DivisionCuda : public OnGpu {};

TEST_F(DivisionCuda, RoundsToNearest) {
  Gpu gpu;
  Random random(23);
  std::vector<float> a(4096 * kThreads), b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Approximate inverses fail for significands near 1 and just below 2. Quotients have the magnitudes of codes.
    const auto significand = [&] {
      const std::int64_t kind = random.below(8);
      return kind == 0   ? 2 - 0x1p-23 * static_cast<double>(1 + random.below(4))
             : kind == 1 ? 1 + 0x1p-23 * static_cast<double>(random.below(4))
                         : random.uniform(1, 2);
    };
    const double exponent = static_cast<double>(random.below(157)) - 78;
    b[i] = static_cast<float>(std::ldexp(significand(), static_cast<int>(exponent)));
    a[i] = static_cast<float>(
        std::ldexp(significand(), static_cast<int>(exponent) + static_cast<int>(random.below(32)) - 20));
    if (random.below(2) == 0) a[i] = -a[i];
    if (i % 1000 == 0) a[i] = 0;
  }
  const Quotients found = quotients(a, b, gpu);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(found.plain[i], a[i] / b[i]) << a[i] << " / " << b[i];
    ASSERT_EQ(found.rarely[i], a[i] / b[i]) << a[i] << " / " << b[i];
  }
}

TEST_F(DivisionCuda, KnowsWhichDivisorsAllowIt) {
  Gpu gpu;
  std::vector<float> b{0,
                       -1,
                       0x1p-70f,
                       0x0.ffffffp-70f,
                       0x1p70f,
                       0x1.000002p70f,
                       1,
                       1e-38f,
                       3e38f,
                       std::numeric_limits<float>::infinity(),
                       std::nanf("")};
  const std::vector<std::uint8_t> expected{0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0};
  b.resize(kThreads, 1.0f);
  std::vector<std::uint8_t> found = quotients(std::vector<float>(kThreads, 1.0f), b, gpu).divides;
  found.resize(expected.size());
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace attest::test
