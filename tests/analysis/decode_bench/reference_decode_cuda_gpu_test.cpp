// The reference decode against a second plain form, on the CPU with the project's quantiser; generated inputs; times of
// graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/decode_bench/graph_timing_cuda.h"
#include "analysis/decode_bench/reference_decode_cuda.h"
#include "dumps/base/error.h"
#include "kernels/decode/base/ffd_shape.h"
#include "kernels/device/cuda_check.h"
#include "kernels/quantize/ffd_thumbnail.h"
#include "tests/near.h"

namespace attest {
namespace {

/// Sums of up to 1000 products in double precision.
constexpr double kTolerance = 1e-9;

KernelInputs shape_of(std::int64_t length, ElementType type) {
  return {.shape = {.num_query_heads = 6, .num_kv_heads = 2, .head_dim = 40, .value_dim = 24},
          .element_type = type,
          .length = length,
          .batch = 2};
}

std::vector<float> floats(const DeviceBuffer& from, ElementType type, std::int64_t count) {
  std::vector<std::byte> raw(static_cast<std::size_t>(2 * count));
  ATTEST_CUDA(cudaMemcpy(raw.data(), from.data(), raw.size(), cudaMemcpyDeviceToHost));
  std::vector<float> values(static_cast<std::size_t>(count));
  convert_to_float(type, raw.data(), values.size(), values.data());
  return values;
}

/// The same on the CPU.
struct Host {
  Host(const DecodeInputs& inputs, int bits) : what(inputs.what), scale(inputs.scale) {
    const std::int64_t keys = inputs.pairs() * what.length;
    q = floats(inputs.q, what.element_type, inputs.rows() * what.shape.head_dim);
    k = floats(inputs.k, what.element_type, keys * what.shape.head_dim);
    v = floats(inputs.v, what.element_type, keys * what.shape.value_dim);
    thumbnail = k;
    residual.assign(k.size(), 0);
    if (bits == 16) return;
    const int dim = what.shape.head_dim;
    std::vector<float> scales(static_cast<std::size_t>(dim));
    for (std::int64_t pair = 0; pair < inputs.pairs(); ++pair)
      for (std::int64_t block = 0; block < what.length / kFfdBlock; ++block) {
        const std::int64_t at = (pair * what.length + block * kFfdBlock) * dim;
        const FfdQuantizer quantizer{.bits = bits};
        ffd_scales(quantizer, &k[at], kFfdBlock, dim, scales);
        ffd_quantize(quantizer, &k[at], kFfdBlock, dim, scales, &thumbnail[at], &residual[at]);
      }
  }

  double score(std::int64_t row, std::int64_t token, bool refined) const {
    const std::int64_t dim = what.shape.head_dim, at = (row / what.shape.group() * what.length + token) * dim;
    double sum = 0;
    for (std::int64_t c = 0; c < dim; ++c)
      sum += static_cast<double>(q[row * dim + c]) *
             (static_cast<double>(thumbnail[at + c]) + (refined ? static_cast<double>(residual[at + c]) : 0.0));
    return scale * sum;
  }

  KernelInputs what;
  double scale;
  std::vector<float> q, k, v, thumbnail, residual;
};

void expect_results_of_the_cpu(const KernelInputs& what, int bits) {
  const CudaStream stream;
  const int sub_block = 32;
  const DecodeInputs inputs = generated_inputs(what, 7, stream);
  stream.synchronize();
  ReferenceDecode plain(inputs, stream);
  const Host host(inputs, bits);
  const std::int64_t length = inputs.what.length, subs = 3 * kFfdBlock / sub_block;
  const int group = inputs.what.shape.group(), dim = inputs.what.shape.value_dim;

  const std::vector<double> maxima = plain.maxima(bits, sub_block);
  ASSERT_EQ(static_cast<std::int64_t>(maxima.size()), inputs.rows() * subs);
  for (std::int64_t row = 0; row < inputs.rows(); ++row)
    for (std::int64_t sub = 0; sub < subs; ++sub) {
      double maximum = -INFINITY;
      for (int t = 0; t < sub_block; ++t) maximum = std::max(maximum, host.score(row, sub * sub_block + t, false));
      ASSERT_TRUE(test::relatively_near(maxima[row * subs + sub], maximum, kTolerance)) << row << " " << sub;
    }

  std::vector<std::uint8_t> kept(static_cast<std::size_t>(inputs.pairs() * subs));
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = i % 3 != 1;
  for (const bool all : {true, false}) {
    const ReferenceOutput found =
        plain.attend(bits, {.kept = all ? std::vector<std::uint8_t>() : kept, .sub_block = sub_block});
    for (std::int64_t row = 0; row < inputs.rows(); ++row) {
      double sum = 0;
      std::vector<double> out(static_cast<std::size_t>(dim));
      for (std::int64_t t = 0; t < length; ++t) {
        if (!all && t < subs * sub_block && kept[row / group * subs + t / sub_block] == 0) continue;
        const double weight = std::exp(host.score(row, t, true) - 10);  // scores are far from overflow
        sum += weight;
        for (int c = 0; c < dim; ++c)
          out[c] += weight * static_cast<double>(host.v[(row / group * length + t) * dim + c]);
      }
      ASSERT_NEAR(found.lse[row], std::log(sum) + 10, kTolerance * 100);
      for (int c = 0; c < dim; ++c) ASSERT_NEAR(found.out[row * dim + c], out[c] / sum, kTolerance * 100);
    }
  }
}

class PlainDecodeTest : public testing::TestWithParam<std::tuple<int, ElementType>> {};

TEST_P(PlainDecodeTest, AgreesWithTheCpu) {
  const auto [bits, type] = GetParam();
  expect_results_of_the_cpu(shape_of(3 * kFfdBlock + 17, type), bits);
}

// More query heads per KV head than a thread sums at once, and than the decode kernels take.
TEST(ReferenceDecode, AgreesWithTheCpuForLargeGroups) {
  for (const int group : {16, 17, 71}) {
    SCOPED_TRACE(group);
    KernelInputs what = shape_of(3 * kFfdBlock + 17, ElementType::float16);
    what.batch = 1;
    what.shape.num_kv_heads = 1, what.shape.num_query_heads = group;
    for (const int bits : {2, 16}) expect_results_of_the_cpu(what, bits);
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, PlainDecodeTest,
                         testing::Combine(testing::Values(2, 4, 8, 16),
                                          testing::Values(ElementType::float16, ElementType::bfloat16)));

TEST(ReferenceDecode, MassesAddUpToOne) {
  const CudaStream stream;
  const DecodeInputs inputs = generated_inputs(shape_of(5 * kFfdBlock, ElementType::float16), 1, stream);
  ReferenceDecode plain(inputs, stream);
  const std::vector<double> masses = plain.masses(64);
  ASSERT_EQ(masses.size(), static_cast<std::size_t>(inputs.rows() * 10));
  for (std::int64_t row = 0; row < inputs.rows(); ++row) {
    double sum = 0;
    for (int sub = 0; sub < 10; ++sub) sum += masses[row * 10 + sub];
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(GeneratedInputs, AreAFunctionOfTheSeed) {
  const CudaStream stream;
  const auto keys = [&](std::uint64_t seed) {
    const DecodeInputs inputs = generated_inputs(shape_of(1000, ElementType::bfloat16), seed, stream);
    stream.synchronize();
    return floats(inputs.k, ElementType::bfloat16, inputs.pairs() * 1000 * 40);
  };
  const std::vector<float> own = keys(5);
  EXPECT_EQ(own, keys(5));
  EXPECT_NE(own, keys(6));
  for (const float x : own) ASSERT_TRUE(std::isfinite(x));
  double squares = 0;
  for (const float x : own) squares += static_cast<double>(x) * x;
  EXPECT_GT(squares / static_cast<double>(own.size()), 0.3);
  EXPECT_LT(squares / static_cast<double>(own.size()), 10);
}

TEST(GraphTiming, TimesEveryReplayAndRotates) {
  const CudaStream stream;
  const DeviceBuffer memory(std::size_t{64} << 20);
  std::vector<int> calls;
  int observed = 0;
  GraphTimingOptions options{.calls = 6, .repeats = 4};
  options.observe = [&] { ++observed; };
  const std::vector<double> times = time_in_graph(stream, options, [&](int call, cudaStream_t on) {
    calls.push_back(call);
    ATTEST_CUDA(cudaMemsetAsync(memory.data(), call, memory.size(), on));
  });
  EXPECT_EQ(calls, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(observed, 1);
  ASSERT_EQ(times.size(), 4u);
  for (const double time : times) EXPECT_TRUE(time > 1 && time < 1e5) << time;
}

TEST(GraphTiming, RefusesWhatPutsNothingIntoTheGraph) {
  const CudaStream stream;
  EXPECT_THROW(time_in_graph(stream, {.calls = 2, .repeats = 2}, [](int, cudaStream_t) {}), Error);
  EXPECT_THROW(time_in_graph(stream, {.calls = 2, .repeats = 2}, [](int, cudaStream_t) { throw InputError("no"); }),
               InputError);
  stream.synchronize();  // the stream is usable again
}

TEST(GraphTiming, CopiesAreBeyondTheCache) {
  EXPECT_EQ(copies_beyond_cache(1e12), 1);
  EXPECT_EQ(copies_beyond_cache(1), 1024);
}

}  // namespace
}  // namespace attest
