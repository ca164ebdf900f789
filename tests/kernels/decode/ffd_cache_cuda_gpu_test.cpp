// What a cache and its calls must bear: more blocks than a grid has rows, and pointers that are not aligned.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "dumps/base/error.h"
#include "kernels/decode/ffd_cache_cuda.h"
#include "kernels/decode/ffd_decode_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

class FfdCacheOnGpu : public OnGpu {};

constexpr std::uint16_t kOne = 0x3C00, kEight = 0x4800;  // of float16

TEST_F(FfdCacheOnGpu, MoreBlocksThanAGridHasRows) {
  constexpr std::int64_t kBlocks = 65537, kTokens = kBlocks * kFfdBlock + 5, kDim = 64;
  std::size_t free = 0, all = 0;
  ATTEST_CUDA(cudaMemGetInfo(&free, &all));
  if (free < std::size_t{8} << 30) GTEST_SKIP() << "needs 8 GiB of GPU memory";
  Gpu gpu;
  DeviceBuffer k, v;
  constexpr std::size_t kBytes = kTokens * kDim * 2, kLast = (kBlocks - 1) * kFfdBlock * kDim * 2;
  const std::vector<std::uint16_t> ones(kFfdBlock * kDim, kOne), eights(kDim, kEight);
  for (DeviceBuffer* const buffer : {&k, &v}) {
    buffer->reserve(kBytes);
    ATTEST_CUDA(cudaMemset(buffer->data(), 0, kBytes));
    ATTEST_CUDA(cudaMemcpy(buffer->data() + kLast, ones.data(), ones.size() * 2, cudaMemcpyHostToDevice));
  }
  FfdCache cache({.batch = 1,
                  .num_kv_heads = 1,
                  .group = 1,
                  .head_dim = kDim,
                  .value_dim = kDim,
                  .max_tokens = kTokens,
                  .element_type = ElementType::float16});
  const int length = kTokens;
  cache.build(k.data(), v.data(), kTokens, &length, gpu.stream);
  const std::vector<float> keep_all{std::numeric_limits<float>::infinity()};
  auto* const out = gpu.arena.take<std::uint16_t>(kDim);
  auto* const lse = gpu.arena.take<float>(1);
  auto* const kept = gpu.arena.take<int>(1);
  cuda_ffd_decode(cache, {.scale = 1, .sub_block = kFfdBlock},
                  {gpu.upload(eights), gpu.upload(keep_all), nullptr, out, lse, kept}, gpu.stream);
  // The last full block's scores are 512, all others 0.
  EXPECT_EQ(gpu.download(out, kDim), std::vector<std::uint16_t>(kDim, kOne));
  EXPECT_NEAR(gpu.download(lse, 1)[0], 512 + std::log(128.0), 0.05);
  EXPECT_EQ(gpu.download(kept, 1)[0], kBlocks);
}

TEST_F(FfdCacheOnGpu, PointersOfACallAreAligned) {
  Gpu gpu;
  const FfdCache cache({.batch = 1,
                        .num_kv_heads = 1,
                        .group = 1,
                        .head_dim = 64,
                        .value_dim = 64,
                        .max_tokens = 128,
                        .element_type = ElementType::float16});
  auto* const q = gpu.arena.take<std::uint16_t>(128);
  auto* const out = gpu.arena.take<std::uint16_t>(128);
  const auto refusal = [&](const void* of_q, void* of_out) {
    return message_of<InputError>([&] { cuda_ffd_decode(cache, {}, {.q = of_q, .out = of_out}, gpu.stream); });
  };
  EXPECT_EQ(refusal(q + 1, out), "FFD decode: expected q at a multiple of 16 bytes, found it 2 bytes behind one");
  EXPECT_EQ(refusal(q, out + 4), "FFD decode: expected out at a multiple of 16 bytes, found it 8 bytes behind one");
  EXPECT_EQ(message_of<InputError>([&] { cuda_ffd_scan(cache, {}, {.q = q + 2}, gpu.stream); }),
            "FFD decode: expected q at a multiple of 16 bytes, found it 4 bytes behind one");
}

}  // namespace
}  // namespace attest::test
