// Asymmetric quantisation with one range per key on the device, bit for bit. The range may cover only some channels.
#include <gtest/gtest.h>

#include "kernels/quantize/token_asymmetric_cuda.cuh"
#include "tests/kernels/plain_quantize.h"
#include "tests/kernels/quantize/device_forms.cuh"

namespace attest::test {
namespace {

/// Quantises and dequantises a key with the range [lo, hi], which may be narrower than that of the key.
Row plain_in_range(const Row& key, double lo, double hi, int bits, double min_range) {
  const double top = std::pow(2, bits) - 1, s = f32(std::max(f32(hi - lo), f32(min_range)) / top);
  Row out;
  for (double x : key) {
    const double code = s == 0 ? 0 : std::clamp(half_even(f32(f32(x - lo) / s)), 0.0, top);
    out.push_back(f32(f32(code * s) + lo));
  }
  return out;
}

class TokenAsymmetricCuda : public OnGpuWith<ElementType> {};

TEST_P(TokenAsymmetricCuda, ConformsBitForBit) {
  constexpr int kDim = 40;
  Gpu of_layer;
  const DeviceLayer on(awkward_layer({"", 2, 2, kDim, 64, GetParam(), {127, 128, 170, 259}, Pattern::peaked, 0, 140}),
                       of_layer);
  const std::int64_t num_keys = on.layer.shape.num_kv_heads * on.layer.num_tokens;
  const std::vector<float> keys = floats_of(GetParam(), on.layer.k, 0, num_keys * kDim);
  std::vector<float2> ranges(2 * num_keys);  // of all channels, then of every third channel
  for (std::int64_t key = 0; key < num_keys; ++key) {
    const auto first = keys.begin() + key * kDim;
    ranges[key] = {*std::min_element(first, first + kDim), *std::max_element(first, first + kDim)};
    ranges[num_keys + key] = {first[0], first[0]};
    for (int d = 3; d < kDim; d += 3) {
      ranges[num_keys + key].x = std::min(ranges[num_keys + key].x, first[d]);
      ranges[num_keys + key].y = std::max(ranges[num_keys + key].y, first[d]);
    }
  }
  for (int bits : {2, 4, 8})
    for (float min_range : {0.0f, 1e-9f, 0.5f})
      for (bool two_sets : {false, true}) {
        Gpu gpu;
        std::vector<RowBatch> batches = batch_of_each_origin(on);
        for (RowBatch& batch : batches) batch.params = two_sets ? batch.origin % 2 : 7;
        const TokenAsymmetricQuantizer quantizer{bits, min_range};
        const FormedKeys found =
            formed_keys(TokenAsymmetricKeys{quantizer, gpu.upload(ranges), two_sets ? num_keys : 0}, on, batches, gpu);
        for (std::size_t i = 0; i < batches.size(); ++i) {
          const KeyOrigin& origin = on.origins[i];
          for (int j = 0; j < origin.length; ++j) {
            const std::int64_t key = origin.kv_head * on.layer.num_tokens + origin.first_key + j;
            const Row own(keys.begin() + key * kDim, keys.begin() + (key + 1) * kDim);
            const bool whole = !two_sets || batches[i].params == 0;
            const float2 range = ranges[(whole ? 0 : num_keys) + key];
            const Row formed = found.key(static_cast<int>(i), j);
            ASSERT_EQ(formed, plain_in_range(own, range.x, range.y, bits, min_range))
                << bits << " bits, least range " << min_range << ", origin " << i << ", token " << j;
            if (!whole) continue;
            ASSERT_EQ(formed, plain_token(own, bits, min_range)) << bits << " bits, origin " << i << ", token " << j;
            std::vector<float> cpu(kDim);
            quantize_tokens(quantizer, &keys[key * kDim], 1, kDim, cpu.data());
            ASSERT_EQ(formed, Row(cpu.begin(), cpu.end())) << bits << " bits, origin " << i << ", token " << j;
          }
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Types, TokenAsymmetricCuda,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

}  // namespace
}  // namespace attest::test
