// Values and hashes of what a layer store gets, compared with those found on the host.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "analysis/cuda/cuda_inspection.h"
#include "dumps/base/content_hash.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Bits of the values that are NaN or infinite.
struct NotFinite {
  ElementType type;
  std::vector<std::uint32_t> bad, good;
};
const NotFinite kNotFinite[] = {
    {ElementType::float32, {0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000}, {0x7F7FFFFF, 0x80000000, 0x00000001}},
    {ElementType::bfloat16, {0x7F80, 0xFF80, 0x7FC1, 0xFF81}, {0x7F7F, 0x8000, 0x7C00, 0xFC01}},
    {ElementType::float16, {0x7C00, 0xFC00, 0x7C01, 0xFE00}, {0x7BFF, 0x8000, 0x0001, 0xFBFF}}};

class CudaInspectionTest : public OnGpu {
 protected:
  /// `values` in device memory from element `offset` of an allocation on, between elements that are not finite.
  StoreFindings check(Gpu& gpu, const NotFinite& of, const std::vector<std::uint32_t>& values, std::size_t offset,
                      std::vector<std::uint32_t>& after) {
    const std::size_t size = size_of(of.type), all = offset + values.size() + 1;
    std::vector<std::byte> bytes(all * size);
    const auto put = [&](std::size_t i, std::uint32_t bits) { std::memcpy(&bytes[i * size], &bits, size); };
    for (std::size_t i = 0; i < all; ++i) put(i, of.bad[0]);
    for (std::size_t i = 0; i < values.size(); ++i) put(offset + i, values[i]);
    const DeviceArena::Scope scope(gpu.arena);
    std::byte* const data = gpu.upload(bytes);
    inspection_.begin(of.type, 0);
    inspection_.check(data + offset * size, values.size() * size, gpu.stream);
    const StoreFindings found = inspection_.findings();
    const std::vector<std::byte> left = gpu.download(data, bytes.size());
    after.assign(values.size(), 0);
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&after[i], &left[(offset + i) * size], size);
    EXPECT_EQ(std::memcmp(&left[(all - 1) * size], &of.bad[0], size), 0) << "beyond the end";
    EXPECT_TRUE(offset == 0 || std::memcmp(left.data(), &of.bad[0], size) == 0) << "before the begin";
    return found;
  }

  CudaInspection inspection_;
};

TEST_F(CudaInspectionTest, FindsAndClearsWhatIsNotFiniteWhereverItIs) {
  Gpu gpu;
  for (const NotFinite& of : kNotFinite)
    for (const std::size_t offset : {0, 1, 3, 5})
      for (const std::size_t count : {1, 2, 7, 8, 9, 17, 1003, 300'001}) {
        std::vector<std::uint32_t> values(count), after;
        for (std::size_t i = 0; i < count; ++i) values[i] = of.good[i % of.good.size()];
        EXPECT_TRUE(check(gpu, of, values, offset, after).finite) << name_of(of.type) << ", " << count;
        EXPECT_TRUE(after == values);
        for (const std::size_t at : {std::size_t{0}, count / 2, count - 1})
          for (const std::uint32_t bad : of.bad) {
            std::vector<std::uint32_t> with_bad = values, cleared = values;
            with_bad[at] = bad;
            cleared[at] = 0;
            EXPECT_FALSE(check(gpu, of, with_bad, offset, after).finite) << name_of(of.type) << ", " << at;
            EXPECT_TRUE(after == cleared) << name_of(of.type) << ", " << at << " of " << count;
          }
      }
}

TEST_F(CudaInspectionTest, HashesAreThoseOfTheHost) {
  Gpu gpu;
  constexpr std::size_t kBlocks = 21;
  const std::vector<std::byte> bytes = random_bytes((kBlocks + 1) * kFileBlock, 5);
  const std::byte* const data = gpu.upload(bytes);
  for (const std::size_t blocks : {std::size_t{1}, std::size_t{8}, kBlocks}) {
    std::vector<const std::byte*> places;
    std::vector<std::uint64_t> expected;
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t begin = (blocks - 1 - i) * kFileBlock + i * LayerStore::kHashAlignment;
      places.push_back(data + begin);
      expected.push_back(hash_of(std::span(bytes).subspan(begin, kFileBlock)));
    }
    inspection_.begin(ElementType::bfloat16, blocks);
    inspection_.hash(places, gpu.stream);
    const StoreFindings found = inspection_.findings();
    EXPECT_EQ(found.hashes, expected) << blocks << " blocks";
    EXPECT_TRUE(found.finite);
  }
}

TEST_F(CudaInspectionTest, ALayerStartsAnew) {
  Gpu gpu;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::byte* const data = reinterpret_cast<std::byte*>(gpu.upload(std::vector<float>{1, nan, 2}));
  for (const bool finite : {false, true}) {  // the value has become zero
    inspection_.begin(ElementType::float32, 0);
    inspection_.check(data, 3 * sizeof(float), gpu.stream);
    EXPECT_EQ(inspection_.findings().finite, finite);
  }
}

}  // namespace
}  // namespace attest::test
