// FFD's scales, thumbnails and residuals on the device, bit for bit, and the resulting scores.
#include <gtest/gtest.h>

#include "kernels/selectors/ffd_scores_cuda.cuh"
#include "tests/kernels/plain_quantize.h"
#include "tests/kernels/quantize/device_forms.cuh"

namespace attest::test {
namespace {

// As in scores_cuda_gpu_test.cpp.
constexpr double kSum = 0x1p-18;

const char* name_of(FfdResidual residual) {
  constexpr const char* kNames[] = {"fp8", "int8", "none", "exact"};
  return kNames[static_cast<int>(residual)];
}

struct QuantizerCase {
  FfdQuantizer quantizer;

  PlainFfdGroup plain(const Row& keys) const {
    return plain_ffd(keys, quantizer.bits, name_of(quantizer.residual), quantizer.arithmetic == QuantArithmetic::dump,
                     quantizer.element_type);
  }
  bool refines() const { return quantizer.residual == FfdResidual::fp8 || quantizer.residual == FfdResidual::int8; }
  std::string text() const {
    return std::to_string(quantizer.bits) + " bits, " + name_of(quantizer.residual) +
           (quantizer.arithmetic == QuantArithmetic::dump ? ", as dump" : "");
  }
};

std::vector<QuantizerCase> all_quantizer_cases(ElementType type) {
  std::vector<QuantizerCase> all;
  for (int bits : {1, 2, 3, 8})
    for (QuantArithmetic arithmetic : {QuantArithmetic::float32, QuantArithmetic::dump})
      for (FfdResidual residual : {FfdResidual::fp8, FfdResidual::int8, FfdResidual::none})
        all.push_back({{bits, residual, arithmetic, type}});
  return all;
}

FormedKeys formed(const QuantizerCase& tried, const ChannelTables<const float>& scales, int block,
                  const DeviceLayer& on, const std::vector<RowBatch>& batches, Gpu& gpu) {
  if (tried.refines()) return formed_keys(FfdKeys<true>{tried.quantizer, scales, block, 3, 3}, on, batches, gpu);
  return formed_keys(FfdKeys<false>{tried.quantizer, scales, block, 3, 0}, on, batches, gpu);
}

/// For tokens [begin, end) of a batch, which share `scales` [padded channels]: compares scales, thumbnail and residual
/// with the plain form and with the CPU.
void expect_segment(const QuantizerCase& tried, const DeviceLayer& on, const FormedKeys& found, const RowBatch& batch,
                    int number, int begin, int end, const float* scales) {
  const HeadData& data = on.heads[batch.origin];
  const int dim = data.head.head_dim;
  std::vector<float> cpu_scales(dim), thumbnail((end - begin) * dim), residual(thumbnail.size());
  const float* keys = data.keys.data() + static_cast<std::size_t>(begin) * dim;
  ffd_scales(tried.quantizer, keys, end - begin, dim, cpu_scales);
  ffd_quantize(tried.quantizer, keys, end - begin, dim, cpu_scales, thumbnail.data(), residual.data());
  for (int d = 0; d < dim; ++d) {
    const PlainFfdGroup plain = tried.plain(plain_column(on, batch.origin, begin, end, d));
    ASSERT_EQ(scales[d], plain.scale) << tried.text() << ", channel " << d << ", tokens from " << begin;
    ASSERT_EQ(found.key_column(number, begin, end, d), plain.thumbnail)
        << tried.text() << ", channel " << d << ", tokens from " << begin;
    for (int token = begin; token < end; ++token)
      ASSERT_EQ(found.keys[found.at(number, token, d)], thumbnail[(token - begin) * dim + d]) << tried.text();
    if (!tried.refines()) continue;
    ASSERT_EQ(found.residual_column(number, begin, end, d), plain.residual)
        << tried.text() << ", channel " << d << ", tokens from " << begin;
    for (int token = begin; token < end; ++token)
      ASSERT_EQ(found.residuals[found.at(number, token, d)], residual[(token - begin) * dim + d]) << tried.text();
  }
}

class FfdThumbnailCuda : public OnGpuWith<ElementType> {
 protected:
  Case several_origins() const { return {"", 2, 2, 40, 64, GetParam(), {127, 128, 170, 259}, Pattern::peaked, 0, 140}; }
};

TEST_P(FfdThumbnailCuda, BlocksConformBitForBit) {
  Gpu of_layer;
  const DeviceLayer on(awkward_layer(several_origins()), of_layer);
  for (int block : {128, 24}) {
    std::vector<RowBatch> batches = batch_of_each_origin(on);
    for (RowBatch& batch : batches) batch.length = batch.length / block * block;
    for (const QuantizerCase& tried : all_quantizer_cases(GetParam())) {
      Gpu gpu;
      const ChannelTables<float> scales =
          cuda_ffd_block_scales(tried.quantizer, on.rows, on.kv, block, gpu.arena, gpu.stream);
      const std::vector<float> tables = gpu.download(scales.data, scales.elements());
      const FormedKeys found = formed(tried, scales, block, on, batches, gpu);
      for (std::size_t i = 0; i < batches.size(); ++i)
        for (int begin = 0; begin < batches[i].length; begin += block)
          ASSERT_NO_FATAL_FAILURE(
              expect_segment(tried, on, found, batches[i], static_cast<int>(i), begin, begin + block,
                             tables.data() + (batches[i].params * scales.segments + begin / block) * scales.padded));
    }
  }
}

// One table of scales for each number of full blocks that the queries of an origin see; some queries see none.
TEST_P(FfdThumbnailCuda, SequencesConformBitForBit) {
  constexpr int kBlock = 48;
  Gpu of_layer;
  const DeviceLayer on(awkward_layer(several_origins()), of_layer);
  std::vector<RowBatch> batches;
  std::vector<int> origins, full_blocks;
  for (int i = 0; i < on.rows.num_origins; ++i)
    for (int blocks : {on.origins[i].length / kBlock, 0, 2}) {
      batches.push_back({.length = blocks * kBlock, .origin = i, .params = static_cast<int>(batches.size())});
      origins.push_back(i);
      full_blocks.push_back(blocks);
    }
  for (const QuantizerCase& tried : all_quantizer_cases(GetParam())) {
    Gpu gpu;
    const ChannelTables<float> scales =
        cuda_ffd_sequence_scales(tried.quantizer, on.rows, on.kv, kBlock, gpu.upload(origins), gpu.upload(full_blocks),
                                 static_cast<int>(batches.size()), gpu.arena, gpu.stream);
    const std::vector<float> tables = gpu.download(scales.data, scales.elements());
    const FormedKeys found = formed(tried, scales, on.rows.max_length + 1, on, batches, gpu);
    for (std::size_t i = 0; i < batches.size(); ++i)
      if (batches[i].length > 0)
        ASSERT_NO_FATAL_FAILURE(expect_segment(tried, on, found, batches[i], static_cast<int>(i), 0, batches[i].length,
                                               tables.data() + i * scales.padded));
  }
}

// The bfloat16 parts of the form must hold thumbnail and residual completely.
TEST_P(FfdThumbnailCuda, ScoresAreOfThumbnailAndResidual) {
  constexpr int kBlock = 64;
  Gpu of_layer;
  const DeviceLayer on(several_origins(), of_layer);
  for (FfdResidual residual : {FfdResidual::fp8, FfdResidual::int8}) {
    Gpu gpu;
    const QuantizerCase tried{{2, residual, QuantArithmetic::float32, GetParam()}};
    const FfdKeys<true> form{tried.quantizer,
                             cuda_ffd_block_scales(tried.quantizer, on.rows, on.kv, kBlock, gpu.arena, gpu.stream),
                             kBlock, 3, residual == FfdResidual::fp8 ? 1 : 3};
    std::vector<int> limits;
    for (int length : on.visible) limits.push_back(length / kBlock * kBlock);
    const RaggedRows<float> scores = gpu.take_rows<float>(limits, on.rows.stride),
                            refined = gpu.take_rows<float>(limits, on.rows.stride);
    const Rows<float> exact(on.visible.size(), std::vector<float>(on.rows.max_length, 0.0f));
    cuda_ffd_scores(on.rows, on.queries, on.kv, form,
                    {.limit = gpu.upload(limits),
                     .exact = gpu.upload_rows(exact, on.rows.stride).items.data,
                     .scores = scores.items.data,
                     .refined = refined.items.data},
                    gpu.stream);
    const Rows<float> found = gpu.download_rows(scores), found_refined = gpu.download_rows(refined);
    for (int i = 0; i < on.rows.num_origins; ++i)
      for (int begin = 0; begin + kBlock <= on.origins[i].length; begin += kBlock) {
        std::vector<PlainFfdGroup> channels;
        for (int d = 0; d < on.kv.head_dim; ++d)
          channels.push_back(tried.plain(plain_column(on, i, begin, begin + kBlock, d)));
        for (int r = 0; r < on.rows.num_rows; ++r)
          for (int j = begin; on.origin[r] == i && j < std::min(limits[r], begin + kBlock); ++j) {
            double dot = 0, rest = 0, magnitude = 0;
            for (int d = 0; d < on.kv.head_dim; ++d) {
              const double q = on.row(r).q(on.head_of_group(r), d), key = channels[d].thumbnail[j - begin];
              dot += q * key;
              rest += q * channels[d].residual[j - begin];
              magnitude += std::fabs(q) * (std::fabs(key) + std::fabs(channels[d].residual[j - begin]));
            }
            const double tolerance = kSum * on.layer.softmax_scale * magnitude;
            ASSERT_LE(std::fabs(found[r][j] - on.row(r).score_of(dot)), tolerance) << "row " << r << ", token " << j;
            ASSERT_LE(std::fabs(found_refined[r][j] - on.row(r).score_of(dot + rest)), tolerance)
                << "row " << r << ", token " << j;
          }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FfdThumbnailCuda,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

}  // namespace
}  // namespace attest::test
