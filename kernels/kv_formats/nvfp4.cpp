// nvfp4, nvfp4_4over6: blocks of 16 channels with an e4m3 scale, under one global scale g.
//   m = max abs of the block, sf = e4m3((1/g) (m (1/6))), o = 1/(sf g), or 0 for m = 0
//   code = e2m1(x o), x^ = code (sf g)
// 4over6 tries 1/4 in place of 1/6, too, and takes it where its sum of squared errors is smaller.
// Source: NVIDIA's NVFP4 as vLLM, TensorRT-LLM and SGLang quantise it. The released kernels take approximate
// reciprocals, so that their code may be the neighbouring one at a tie.
#include <vector>

#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/lane_sum.h"
#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

constexpr int kBlock = 16;

double bytes(const KvRows& rows) { return rows.channels * 9.0 / 16; }
std::string fault(const KvRows& rows) { return fault_unless_multiple(rows, kBlock); }

/// The scales of all blocks of a row, in loops over blocks, which vectorise.
struct BlockScales {
  std::vector<float> inverse;  ///< 1/(sf g), or 0
  std::vector<double> scale;   ///< sf g

  explicit BlockScales(std::size_t blocks) : inverse(blocks), scale(blocks) {}

  /// inverse_top: 1/6, or 1/4.
  void fill(const std::vector<float>& largest, float global, float inverse_top) {
    const float inverse_global = 1.0f / global;
    for (std::size_t b = 0; b < largest.size(); ++b) {
      const float factor = round_to_e4m3(inverse_global * (largest[b] * inverse_top)), step = factor * global;
      // A scale that rounds to 0 stands for zeros. Its reciprocal would be infinite, and 0 times that NaN.
      inverse[b] = step > 0 ? 1.0f / step : 0.0f;
      scale[b] = static_cast<double>(factor) * global;
    }
  }
};

void decode(const float* x, float inverse, double scale, double* out) {
  for (int d = 0; d < kBlock; ++d) out[d] = static_cast<double>(round_to_e2m1(x[d] * inverse)) * scale;
}

double squared_error(const float* x, const double* decoded) {
  return lane_sum(kBlock, [&](std::size_t d) { return (decoded[d] - x[d]) * (decoded[d] - x[d]); });
}

template <bool kFourOverSix>
void apply(const KvRows& rows, float scale, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  const auto blocks = static_cast<std::size_t>(rows.channels / kBlock);
  std::vector<float> largest(blocks);
  BlockScales six(blocks), four(blocks);
  for (std::int64_t t = 0; t < count; ++t, x += rows.channels, out += stride) {
    for (std::size_t b = 0; b < blocks; ++b) largest[b] = max_magnitude(x + b * kBlock, kBlock);
    six.fill(largest, scale, 1.0f / 6.0f);
    if constexpr (kFourOverSix) four.fill(largest, scale, 1.0f / 4.0f);
    for (std::size_t b = 0; b < blocks; ++b) {
      const float* block = x + b * kBlock;
      double* target = out + b * kBlock;
      decode(block, six.inverse[b], six.scale[b], target);
      if constexpr (kFourOverSix) {
        double other[kBlock];
        decode(block, four.inverse[b], four.scale[b], other);
        const bool better = squared_error(block, other) < squared_error(block, target);
        for (int i = 0; i < kBlock; ++i) target[i] = better ? other[i] : target[i];
      }
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
          .bytes = bytes,
          .fault = fault,
          .apply = apply<kFourOverSix>,
          .cuda = on_cuda<cuda>()};
}

}  // namespace

extern const KvFormat kv_nvfp4, kv_nvfp4_4over6;
constexpr KvFormat kv_nvfp4 =
    nvfp4<false, cuda_kv_nvfp4>("nvfp4", "blocks of 16 channels: sf = e4m3(max abs / 6g), x^ = sf g e2m1(x / (sf g))");
constexpr KvFormat kv_nvfp4_4over6 = nvfp4<true, cuda_kv_nvfp4_4over6>(
    "nvfp4_4over6", "nvfp4, or with 4 for 6 where a block's squared error is smaller");

}  // namespace attest
