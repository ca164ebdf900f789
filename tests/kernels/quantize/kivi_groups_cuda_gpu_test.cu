// KIVI's groups of keys and values on the device, bit for bit.
#include <gtest/gtest.h>

#include "kernels/quantize/kivi_groups_cuda.cuh"
#include "tests/kernels/plain_quantize.h"
#include "tests/kernels/quantize/device_forms.cuh"

namespace attest::test {
namespace {

std::string text(const KiviQuantizer& quantizer) {
  return std::to_string(quantizer.bits) + " bits, group " + std::to_string(quantizer.group) +
         (quantizer.arithmetic == QuantArithmetic::dump ? ", as dump" : "");
}

std::vector<KiviQuantizer> all_quantizers(ElementType type, std::initializer_list<int> groups) {
  std::vector<KiviQuantizer> all;
  for (int bits : {1, 2, 4, 8})
    for (QuantArithmetic arithmetic : {QuantArithmetic::float32, QuantArithmetic::dump})
      for (int group : groups) all.push_back({bits, group, arithmetic, type});
  return all;
}

Row plain(const KiviQuantizer& quantizer, const Row& x) {
  return plain_kivi(x, quantizer.bits, quantizer.arithmetic == QuantArithmetic::dump, quantizer.element_type);
}

class KiviGroupsCuda : public OnGpuWith<ElementType> {
 protected:
  /// Groups of channels are not a multiple of eight, or cross the border of the eight channels that are read at once.
  Case several_origins() const {
    return {"", 2, 2, 40, 120, GetParam(), {127, 128, 170, 259}, Pattern::peaked, 0, 140};
  }
};

TEST_P(KiviGroupsCuda, KeysConformBitForBit) {
  Gpu of_layer;
  const DeviceLayer on(awkward_layer(several_origins()), of_layer);
  for (const KiviQuantizer& quantizer : all_quantizers(GetParam(), {32, 5})) {
    Gpu gpu;
    std::vector<RowBatch> batches = batch_of_each_origin(on);
    for (RowBatch& batch : batches) batch.length = batch.length / quantizer.group * quantizer.group;
    const KiviKeys form = cuda_kivi_keys(quantizer, on.rows, on.kv, gpu.arena, gpu.stream);
    const FormedKeys found = formed_keys(form, on, batches, gpu);
    for (int i = 0; i < static_cast<int>(batches.size()); ++i) {
      const int length = batches[i].length, dim = on.kv.head_dim;
      std::vector<float> cpu(static_cast<std::size_t>(length) * dim);
      kivi_quantize_per_channel(quantizer, on.heads[i].keys.data(), length, dim, cpu.data());
      for (int d = 0; d < dim; ++d)
        for (int begin = 0; begin < length; begin += quantizer.group) {
          const Row column = found.key_column(i, begin, begin + quantizer.group, d);
          ASSERT_EQ(column, plain(quantizer, plain_column(on, i, begin, begin + quantizer.group, d)))
              << text(quantizer) << ", origin " << i << ", channel " << d << ", tokens from " << begin;
          for (int t = 0; t < quantizer.group; ++t)
            ASSERT_EQ(column[t], cpu[static_cast<std::size_t>(begin + t) * dim + d]) << text(quantizer);
        }
    }
  }
}

TEST_P(KiviGroupsCuda, ValuesConformBitForBit) {
  Gpu of_layer;
  const DeviceLayer on(awkward_layer(several_origins()), of_layer);
  const int dim = on.kv.value_dim;
  const std::int64_t vectors = on.layer.shape.num_kv_heads * on.layer.num_tokens;
  const std::vector<float> values = floats_of(GetParam(), on.layer.v, 0, vectors * dim);
  for (const KiviQuantizer& quantizer : all_quantizers(GetParam(), {40, 24, 20, 3})) {
    Gpu gpu;
    const std::size_t count = values.size() / quantizer.group;
    auto* groups = gpu.arena.take<float2>(count);
    cuda_kivi_value_groups(quantizer, on.kv, vectors, groups, gpu.stream);
    const std::vector<float2> found_groups = gpu.download(groups, count);
    const std::vector<float> found = formed_values(KiviValues{quantizer, groups, dim / quantizer.group}, on, gpu);
    std::vector<float> cpu(values.size());
    kivi_quantize_per_token(quantizer, values.data(), vectors, dim, cpu.data());
    ASSERT_EQ(found, cpu) << text(quantizer);
    for (std::size_t g = 0; g < count; ++g) {
      const auto first = static_cast<std::ptrdiff_t>(g * quantizer.group), last = first + quantizer.group;
      const Row own(values.begin() + first, values.begin() + last);
      ASSERT_EQ(found_groups[g].x, *std::min_element(own.begin(), own.end())) << text(quantizer) << ", group " << g;
      ASSERT_EQ(Row(found.begin() + first, found.begin() + last), plain(quantizer, own))
          << text(quantizer) << ", group " << g;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KiviGroupsCuda,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

}  // namespace
}  // namespace attest::test
