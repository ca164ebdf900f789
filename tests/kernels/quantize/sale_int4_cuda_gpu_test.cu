// SALE's codes and scales on the device, bit for bit.
#include <gtest/gtest.h>

#include "kernels/quantize/sale_int4_cuda.cuh"
#include "tests/kernels/quantize/device_forms.cuh"

namespace attest::test {
namespace {

/// Keys minus a mean for the first `visible` tokens of a head: [visible, D], each difference rounded to float32.
Rows<double> centred_keys(const HeadData& data, const float* mean, int visible) {
  Rows<double> keys;
  for (int j = 0; j < visible; ++j) {
    keys.emplace_back();
    for (int d = 0; d < data.head.head_dim; ++d)
      keys.back().push_back(f32(static_cast<double>(data.keys[j * data.head.head_dim + d]) - mean[d]));
  }
  return keys;
}

/// The largest magnitude among the tokens that share a scale with token j.
double plain_range(SaleKeyScale kind, const Rows<double>& keys, int j) {
  double maximum = 0;
  for (int other = 0; other < static_cast<int>(keys.size()); ++other) {
    const bool shares = kind == SaleKeyScale::token ? other == j : other / 32 == j / 32 && other % 8 / 2 == j % 8 / 2;
    for (double x : keys[other]) maximum = shares ? std::max(maximum, std::fabs(x)) : maximum;
  }
  return maximum;
}

double plain_code(double x, double range) { return range == 0 ? 0 : half_even(f32(f32(x * 7) / range)); }

class SaleInt4Cuda : public OnGpuWith<ElementType> {};

TEST_P(SaleInt4Cuda, KeysConformBitForBit) {
  constexpr int kDim = 40, kPadded = 64;
  Gpu of_layer;
  const DeviceLayer on(
      awkward_layer({"", 2, 2, kDim, 64, GetParam(), {0, 5, 31, 32, 70, 130, 165}, Pattern::peaked, 0, 140}), of_layer);
  const int group = on.rows.group, queries = on.rows.num_rows / group;
  Random random(21);
  Rows<float> means;
  std::vector<RowBatch> batches;
  std::vector<int> lengths;
  for (int query = 0; query < queries; ++query) {
    const int row = query * group;
    means.emplace_back(kPadded, 0.0f);
    for (int d = 0; d < kDim; ++d) means.back()[d] = query % 3 == 0 ? 0 : static_cast<float>(random.normal());
    lengths.push_back(on.length(row));
    batches.push_back({.length = on.length(row), .origin = on.origin[row], .params = query});
  }
  for (SaleKeyScale kind : {SaleKeyScale::block, SaleKeyScale::token}) {
    Gpu gpu;
    const DeviceMatrix<float> on_device = gpu.upload_rows(means, kPadded).items;
    const RaggedRows<float> absmax = gpu.take_rows<float>(lengths, on.rows.stride);
    cuda_sale_key_ranges(kind, on.rows, on.kv, on_device, absmax.items, gpu.stream);
    const Rows<float> ranges = gpu.download_rows(absmax);
    const FormedKeys found = formed_keys(SaleKeys{on_device, absmax.items}, on, batches, gpu);
    for (int query = 0; query < queries; ++query) {
      const int length = lengths[query];
      const Rows<double> keys = centred_keys(on.heads[batches[query].origin], means[query].data(), length);
      std::vector<float> flat, cpu(static_cast<std::size_t>(length) * kDim), scales(length);
      for (const Row& key : keys) flat.insert(flat.end(), key.begin(), key.end());
      sale_quantize_keys(kind, flat.data(), length, kDim, cpu.data(), scales);
      for (int j = 0; j < length; ++j) {
        const double range = plain_range(kind, keys, j);
        ASSERT_EQ(ranges[query][j], range) << "query " << query << ", token " << j;
        ASSERT_EQ(scales[j], f32(range / 7)) << "query " << query << ", token " << j;
        for (int d = 0; d < kDim; ++d) {
          const float code = found.keys[found.at(query, j, d)];
          ASSERT_EQ(code, plain_code(keys[j][d], range)) << "query " << query << ", token " << j << ", channel " << d;
          ASSERT_EQ(code, cpu[j * kDim + d]) << "query " << query << ", token " << j << ", channel " << d;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SaleInt4Cuda,
                         testing::Values(ElementType::float16, ElementType::bfloat16, ElementType::float32),
                         name_of_type);

__global__ void codes_kernel(const float* x, const float* absmax, float* codes, float* scales) {
  const int i = blockIdx.x * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  codes[i] = sale_code(x[i], absmax[i]);
  scales[i] = sale_scale(absmax[i]);
}

class SaleCodesCuda : public OnGpu {};

TEST_F(SaleCodesCuda, RoundHalfToEven) {
  std::vector<float> x, absmax;
  for (int code = -14; code <= 14; ++code)  // multiples of half a code
    for (float range : {7.0f, 0.875f, 3.0f, 1e-30f, 0.0f, 6e4f, 1e30f, 0.1f}) {
      x.push_back(range * static_cast<float>(code) / 14);
      absmax.push_back(range);
    }
  x.resize(x.size() / 8 * 8);
  Gpu gpu;
  float *codes = gpu.arena.take<float>(x.size()), *scales = gpu.arena.take<float>(x.size());
  codes_kernel<<<static_cast<unsigned>(x.size() / 8), 8, 0, gpu.stream>>>(gpu.upload(x), gpu.upload(absmax), codes,
                                                                          scales);
  const std::vector<float> found = gpu.download(codes, x.size()), found_scales = gpu.download(scales, x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(found[i], plain_code(x[i], absmax[i])) << x[i] << " of " << absmax[i];
    EXPECT_EQ(found_scales[i], f32(static_cast<double>(absmax[i]) / 7)) << absmax[i];
  }
}

}  // namespace
}  // namespace attest::test
