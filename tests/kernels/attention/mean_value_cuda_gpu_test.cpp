// Means of the visible keys and values on the device, and outputs blended with the mean value.
#include <gtest/gtest.h>

#include "kernels/attention/mean_value.h"
#include "kernels/attention/mean_value_cuda.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

// Sums are in double; the mean is rounded to float32.
constexpr double kMean = 0x1p-24, kSum = 0x1p-40;
// Mean, output and blended output are each rounded to float32.
constexpr double kBlend = 0x1p-22;

struct PlainMean {
  double mean = 0, magnitude = 0;
};

/// Mean of of(token) over the first `count` tokens.
template <class Of>
PlainMean plain_mean(int count, Of&& of) {
  PlainMean out;
  for (int j = 0; j < count; ++j) {
    out.mean += of(j) / count;
    out.magnitude += std::fabs(of(j)) / count;
  }
  return out;
}

DeviceMatrix<float> take_means(const DeviceLayer& on, int channels, Gpu& gpu) {
  const int padded = (channels + 63) / 64 * 64, queries = on.rows.num_rows / on.rows.group;
  return {gpu.arena.take<float>(static_cast<std::size_t>(queries * padded)), padded};
}

class MeanValueCuda : public OnGpuWith<Case> {};

TEST_P(MeanValueCuda, MeansAreOfWhatAQuerySees) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  for (bool of_keys : {true, false}) {
    const int channels = of_keys ? on.kv.head_dim : on.kv.value_dim, group = on.rows.group;
    const DeviceMatrix<float> means = take_means(on, channels, gpu);
    cuda_visible_means(on.rows, of_keys ? on.kv.all_keys() : on.kv.all_values(), means, gpu.arena, gpu.stream);
    for (int row = 0; row < on.rows.num_rows; row += group) {
      const std::vector<float> found = gpu.download(means.row(row / group), static_cast<std::size_t>(means.stride));
      const Query& query = on.row(row);
      for (int d = 0; d < static_cast<int>(found.size()); ++d) {
        const double mean = static_cast<double>(found[static_cast<std::size_t>(d)]);
        if (d >= channels) {
          ASSERT_EQ(mean, 0) << "padding " << d;
          continue;
        }
        const PlainMean plain =
            plain_mean(on.length(row), [&](int j) { return of_keys ? query.k(j, d) : query.v(j, d); });
        ASSERT_LE(std::fabs(mean - plain.mean), kMean * std::fabs(plain.mean) + kSum * plain.magnitude)
            << "row " << row << ", channel " << d;
      }
    }
  }
}

TEST_P(MeanValueCuda, MeansDoNotDependOnTheQueriesBesideThem) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const DeviceMatrix<float> means = take_means(on, on.kv.head_dim, gpu), alone = take_means(on, on.kv.head_dim, gpu);
  cuda_visible_means(on.rows, on.kv.all_keys(), means, gpu.arena, gpu.stream);
  cuda_visible_means(on.first_rows(on.rows.group, 64, gpu), on.kv.all_keys(), alone, gpu.arena, gpu.stream);
  EXPECT_EQ(gpu.download(alone.data, static_cast<std::size_t>(alone.stride)),
            gpu.download(means.data, static_cast<std::size_t>(means.stride)));
}

TEST_P(MeanValueCuda, OutputsAreBlended) {
  constexpr int kSettings = 3;
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const auto dim = static_cast<std::size_t>(on.kv.value_dim), rows = static_cast<std::size_t>(on.rows.num_rows);
  Random random(5);
  std::vector<float> output(rows * kSettings * dim);
  for (float& x : output) x = static_cast<float>(random.normal());
  Rows<double> shares(rows);
  for (std::vector<double>& row : shares) row = {0, random.uniform(), 1};
  float* on_device = gpu.upload(output);
  const DeviceOutputs outputs{on_device, nullptr, kSettings, on.kv.value_dim};
  cuda_blend_mean_values(on.rows, on.kv, gpu.upload_rows(shares, 5).items, outputs, gpu.arena, gpu.stream);
  const std::vector<float> found = gpu.download(on_device, output.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t d = 0; d < dim; ++d) {
      const int row = static_cast<int>(r);
      const PlainMean plain = plain_mean(on.length(row), [&](int j) { return on.row(row).v(j, static_cast<int>(d)); });
      for (std::size_t i = 0; i < kSettings; ++i) {
        const std::size_t at = (r * kSettings + i) * dim + d;
        const double own = shares[r][i] * static_cast<double>(output[at]), rest = (1 - shares[r][i]) * plain.mean;
        const double tolerance = kBlend * (std::fabs(own) + std::fabs(rest)) + kSum * plain.magnitude;
        ASSERT_LE(std::fabs(static_cast<double>(found[at]) - (own + rest)), tolerance)
            << "row " << r << ", setting " << i << ", channel " << d;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, MeanValueCuda, testing::ValuesIn(all_device_cases()), name_of_case);

class MeansOfIntegersCuda : public OnGpu {};

// Lengths at the borders of the 256-token segments whose sums all queries share.
TEST_F(MeansOfIntegersCuda, AreExact) {
  Gpu gpu;
  const DeviceLayer on(
      Case{"", 2, 1, 64, 64, ElementType::float16, {0, 254, 255, 256, 510, 511, 512, 1023, 1300}, Pattern::ties}, gpu);
  const DeviceMatrix<float> means = take_means(on, 64, gpu);
  cuda_visible_means(on.rows, on.kv.all_keys(), means, gpu.arena, gpu.stream);
  for (int r = 0; r < on.rows.num_rows; ++r) {
    const std::vector<float> found = gpu.download(means.row(r), 64);
    for (int d = 0; d < 64; ++d) {
      double sum = 0;
      for (int j = 0; j < on.length(r); ++j) sum += on.row(r).k(j, d);
      EXPECT_EQ(found[static_cast<std::size_t>(d)], static_cast<float>(sum / on.length(r)))
          << "row " << r << ", channel " << d;
    }
  }
}

}  // namespace
}  // namespace attest::test
