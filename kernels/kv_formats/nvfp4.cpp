// nvfp4, nvfp4_4over6: blocks of 16 channels with an e4m3 scale, under one global scale g.
//   m = max abs of the block, sf = e4m3((1/g) (m (1/6))), o = 1/(sf g), or 0 for m = 0
//   code = e2m1(x o), x^ = code (sf g)
// 4over6 tries 1/4 in place of 1/6, too, and takes it where its sum of squared errors is smaller.
// Source: NVIDIA's NVFP4 as vLLM, TensorRT-LLM and SGLang quantise it. The released kernels take approximate
// reciprocals, so that their code may be the neighbouring one at a tie.
#include <algorithm>
#include <cstring>

#include "kernels/base/lane_sum.h"
#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/quantize/rounding.h"
#include "kernels/quantize/vector_steps.h"

namespace attest {
namespace {

constexpr int kBlock = 16;

double nvfp4_bytes(const KvRows& rows) { return rows.channels * 9.0 / 16; }
std::string nvfp4_fault(const KvRows& rows) { return fault_unless_multiple(rows, kBlock); }

constexpr std::int64_t kBlocksAtOnce = 64;

/// The scales of some blocks, in loops over blocks, which vectorise.
struct BlockScales {
  float inverse[kBlocksAtOnce];  ///< 1/(sf g), or 0
  double scale[kBlocksAtOnce];   ///< sf g

  /// inverse_top: 1/6, or 1/4.
  void fill(const float* largest, std::int64_t blocks, float global, float inverse_top) {
    const float inverse_global = 1.0f / global;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float factor = round_to_e4m3(inverse_global * (largest[b] * inverse_top)), step = factor * global;
      // A scale that rounds to 0 stands for zeros. Its reciprocal would be infinite, and 0 times that NaN.
      inverse[b] = step > 0 ? 1.0f / step : 0.0f;
      scale[b] = static_cast<double>(factor) * global;
    }
  }
};

/// e2m1(magnitude inverse): rounded to a multiple of 0.5 below 2, of 1 below 4, of 2 from there, by adding and
/// subtracting 1.5 * 2^23 times that.
ATTEST_INLINE void codes_of(const Vec16f& magnitude, float inverse, float* codes) {
  constexpr std::uint32_t kOne = 127u << 23, kExponent = 0xFFu << 23, kMagic = 22u << 23, kHalf = 1u << 22;
  Vec16f position = magnitude * inverse, magic;
  position = position < 6.0f ? position : Vec16f{} + 6.0f;
  Vec16u bits;
  std::memcpy(&bits, &position, sizeof bits);
  bits &= kExponent;
  bits = ((bits > kOne ? bits : Vec16u{} + kOne) + kMagic) | kHalf;
  std::memcpy(&magic, &bits, sizeof magic);
  store((position + magic) - magic, codes);
}

/// The numbers of a block, apart from their signs while their codes are sought.
struct Block {
  Vec16u signs;
  Vec16f magnitude;

  ATTEST_INLINE explicit Block(const float* x) {
    Vec16u bits;
    load(x, bits);
    signs = bits & 0x80000000u;
    bits &= 0x7FFFFFFFu;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
  }
  ATTEST_INLINE void decode(const float* codes, double scale, double* out) const {
    alignas(64) float with_signs[kBlock];
    Vec16u bits;
    load(codes, bits);
    store(bits | signs, with_signs);
    const Wide wide(with_signs, scale);
    store(wide.low, out);
    store(wide.high, out + 8);
  }
};

/// Squared errors of some blocks, summed in the order of lane_sum().
struct SquaredErrors {
  alignas(64) double lanes[kBlocksAtOnce][8];

  ATTEST_INLINE void add(std::int64_t block, const Wide& decoded, const Wide& exact) {
    const Vec8d low = decoded.low - exact.low, high = decoded.high - exact.high;
    store(low * low + high * high, lanes[block]);
  }
  double of(std::int64_t block) const { return sum_of_lanes(lanes[block]); }
};

/// Puts the scale of `four` in the place of that of `six` where it errs less.
void choose(const float* x, const BlockScales& four, std::int64_t blocks, BlockScales& six) {
  SquaredErrors six_errors, four_errors;
  alignas(64) float codes[kBlock];
  for (std::int64_t b = 0; b < blocks; ++b) {
    const Block block(x + b * kBlock);
    store(block.magnitude, codes);
    const Wide exact(codes, 1);
    codes_of(block.magnitude, six.inverse[b], codes);
    six_errors.add(b, Wide(codes, six.scale[b]), exact);
    codes_of(block.magnitude, four.inverse[b], codes);
    four_errors.add(b, Wide(codes, four.scale[b]), exact);
  }
  for (std::int64_t b = 0; b < blocks; ++b) {
    const bool better = four_errors.of(b) < six_errors.of(b);
    six.inverse[b] = better ? four.inverse[b] : six.inverse[b];
    six.scale[b] = better ? four.scale[b] : six.scale[b];
  }
}

template <bool kFourOverSix>
void apply_nvfp4(const KvRows& rows, float global, const float* x, std::int64_t count, double* out,
                 std::int64_t stride) {
  const std::int64_t blocks = rows.channels / kBlock;
  float largest[kBlocksAtOnce];
  BlockScales scales, four;
  alignas(64) float codes[kBlock];
  std::int64_t token = 0, of_token = 0;
  for (std::int64_t left = count * blocks; left > 0; left -= kBlocksAtOnce, x += kBlocksAtOnce * kBlock) {
    const std::int64_t here = std::min(kBlocksAtOnce, left);
    for (std::int64_t b = 0; b < here; ++b) largest[b] = max_magnitude(x + b * kBlock, kBlock);
    scales.fill(largest, here, global, 1.0f / 6.0f);
    if constexpr (kFourOverSix) {
      four.fill(largest, here, global, 1.0f / 4.0f);
      choose(x, four, here, scales);
    }
    for (std::int64_t b = 0; b < here; ++b) {
      const Block block(x + b * kBlock);
      codes_of(block.magnitude, scales.inverse[b], codes);
      block.decode(codes, scales.scale[b], out + token * stride + of_token * kBlock);
      if (++of_token == blocks) ++token, of_token = 0;
    }
  }
}

template <bool kFourOverSix, auto* cuda>
constexpr KvFormat nvfp4(std::string_view name, std::string_view rule) {
  return {.name = name,
          .bytes_text = "9C/16",
          .rule = rule,
          .source = "NVFP4 of NVIDIA; KV caches of vLLM, TensorRT-LLM, SGLang",
          .scale_divisor = 448.0f * 6.0f,
          .amax_by_default = true,
          .bytes = nvfp4_bytes,
          .fault = nvfp4_fault,
          .apply = apply_nvfp4<kFourOverSix>,
          .cuda = on_cuda<cuda>()};
}

}  // namespace

extern const KvFormat kv_nvfp4, kv_nvfp4_4over6;
constexpr KvFormat kv_nvfp4 =
    nvfp4<false, cuda_kv_nvfp4>("nvfp4", "blocks of 16 channels: sf = e4m3(max abs / 6g), x^ = sf g e2m1(x / (sf g))");
constexpr KvFormat kv_nvfp4_4over6 = nvfp4<true, cuda_kv_nvfp4_4over6>(
    "nvfp4_4over6", "nvfp4, or with 4 for 6 where a block's squared error is smaller");

}  // namespace attest
