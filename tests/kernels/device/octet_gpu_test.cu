// Loading octets (eight channels) of every element type at every place of a row, and splitting them into bfloat16
// parts.
#include <gtest/gtest.h>

#include "kernels/device/octet.cuh"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

constexpr int kRows = 5;

/// Loads x [rows, channels] as octets: out [rows, octets, 8].
__global__ void load_octet_kernel(ElementType type, const void* x, int channels, int octets, float* out) {
  const int row = blockIdx.x, channel = static_cast<int>(threadIdx.x) * kOctet;
  float octet[kOctet];
  load_octet(type, x, static_cast<std::int64_t>(row) * channels + channel, channels - channel, channels, octet);
  for (int i = 0; i < kOctet; ++i) out[(row * octets + static_cast<int>(threadIdx.x)) * kOctet + i] = octet[i];
}

/// The same, but a thread loads the octets of all rows at once.
__global__ void load_octets_kernel(ElementType type, const void* x, int channels, int octets, float* out) {
  const int channel = static_cast<int>(threadIdx.x) * kOctet;
  float loaded[kRows][kOctet];
  load_octets(
      type, x, channels,
      [&](int row) {
        return OctetPlace{static_cast<std::int64_t>(row) * channels + channel, channels - channel};
      },
      loaded);
  for (int row = 0; row < kRows; ++row)
    for (int i = 0; i < kOctet; ++i) out[(row * octets + static_cast<int>(threadIdx.x)) * kOctet + i] = loaded[row][i];
}

/// Numbers representable in the type, of every magnitude that bfloat16 parts can hold.
std::vector<float> numbers(ElementType type, std::size_t count) {
  Random random(static_cast<std::uint64_t>(type) + 5);
  std::vector<float> values(count);
  const double widest = type == ElementType::float16 ? 10 : 60;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = i % 11 == 0 ? 0 : random.normal() * std::exp2(random.uniform(-widest, widest));
    values[i] = static_cast<float>(to_type(type, x));
  }
  return values;
}

const void* upload(ElementType type, const std::vector<float>& values, Gpu& gpu) {
  const LayerBuffer bytes = rounded(type, values);
  return gpu.upload(std::vector<std::byte>(bytes.data(), bytes.data() + bytes.size()));
}

class OctetsOfType : public OnGpuWith<ElementType> {};

TEST_P(OctetsOfType, AreTheElementsAndZeroBehindTheRow) {
  for (int channels : {1, 3, 7, 8, 9, 15, 16, 64, 77, 80, 100, 576}) {
    Gpu gpu;
    const std::vector<float> x = numbers(GetParam(), static_cast<std::size_t>(kRows * channels));
    const int octets = channels / kOctet + 2;  // the last lies past the end of the row
    std::vector<float> expected(static_cast<std::size_t>(kRows * octets * kOctet), 0.0f);
    for (int row = 0; row < kRows; ++row)
      std::copy_n(x.begin() + row * channels, channels, expected.begin() + row * octets * kOctet);
    const void* on_device = upload(GetParam(), x, gpu);
    float *one = gpu.arena.take<float>(expected.size()), *several = gpu.arena.take<float>(expected.size());
    load_octet_kernel<<<kRows, octets, 0, gpu.stream>>>(GetParam(), on_device, channels, octets, one);
    load_octets_kernel<<<1, octets, 0, gpu.stream>>>(GetParam(), on_device, channels, octets, several);
    EXPECT_EQ(gpu.download(one, expected.size()), expected) << channels << " channels";
    EXPECT_EQ(gpu.download(several, expected.size()), expected) << channels << " channels";
  }
}

constexpr int kParts = 3;

/// parts [kParts, count] of the values; rest [count]: what is left after parts_of(type) parts.
__global__ void take_parts_kernel(ElementType type, const float* values, int count, std::uint16_t* parts, float* rest) {
  const int first = static_cast<int>(threadIdx.x) * kOctet;
  float x[kOctet];
  load_floats(values + first, x);
  for (int part = 0; part < kParts; ++part) {
    if (part == parts_of(type))
      for (int i = 0; i < kOctet; ++i) rest[first + i] = x[i];
    *reinterpret_cast<uint4*>(parts + part * count + first) = split_leading_bf16(x);
  }
  if (parts_of(type) == kParts)
    for (int i = 0; i < kOctet; ++i) rest[first + i] = x[i];
}

TEST_P(OctetsOfType, AreExactSumsOfTheirParts) {
  constexpr std::size_t kCount = 4096;
  Gpu gpu;
  const std::vector<float> values = numbers(GetParam(), kCount);
  auto* parts = gpu.arena.take<std::uint16_t>(kParts * kCount);
  auto* rest = gpu.arena.take<float>(kCount);
  take_parts_kernel<<<1, kCount / kOctet, 0, gpu.stream>>>(GetParam(), gpu.upload(values), kCount, parts, rest);
  EXPECT_EQ(gpu.download(rest, kCount), std::vector<float>(kCount, 0.0f));
  const std::vector<std::uint16_t> found = gpu.download(parts, kParts * kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    double left = values[i];
    for (int part = 0; part < kParts; ++part) {
      const double leading = to_type(ElementType::bfloat16, left),
                   taken = std::bit_cast<float>(static_cast<std::uint32_t>(found[part * kCount + i]) << 16);
      ASSERT_EQ(taken, leading) << "part " << part << " of " << values[i];
      left -= leading;
    }
    ASSERT_EQ(left, 0) << values[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OctetsOfType,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

}  // namespace
}  // namespace attest::test
