// Learned sinks on the device, against a softmax with the sink as one more key of value 0 and against the CPU.
#include <gtest/gtest.h>

#include "kernels/attention/sinks.h"
#include "kernels/attention/sinks_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/near.h"

namespace attest::test {
namespace {

// The keys' share is in double; the output times the share is rounded to float32 again.
constexpr double kOutput = 0x1p-23;
// exp and log in double, of arguments that differ by several hundred.
constexpr double kLse = 1e-12;
constexpr double kNothing = -std::numeric_limits<double>::infinity();

struct Shape {
  const char* name;
  int group, queries, settings, value_dim;
};

/// Outputs of rows without their sinks; row r has sink[r].
struct Outputs {
  Shape shape;
  std::vector<float> sink, output;
  std::vector<double> lse;

  explicit Outputs(const Shape& given) : shape(given) {
    Random random(41);
    // From far below to far above every key. With 700 the weights of the keys vanish.
    const double sinks[] = {-3, 0, 4.5, 60, -60, 700, -700};
    for (int r = 0; r < rows(); ++r) {
      sink.push_back(static_cast<float>(sinks[r % 7] + 0.1 * random.normal()));
      for (int i = 0; i < shape.settings; ++i) {
        const bool nothing = i == 0 && r % 3 == 2;
        lse.push_back(nothing ? kNothing : 5 * random.normal() + (r % 5 == 4 ? 300 : 0));
        for (int d = 0; d < shape.value_dim; ++d)
          output.push_back(nothing ? 0.0f : static_cast<float>(random.normal()));
      }
    }
  }
  int rows() const { return shape.group * shape.queries; }
  std::size_t cell(int r, int i) const { return static_cast<std::size_t>(r * shape.settings + i); }

  /// The keys' share of the softmax, and the log-sum-exp of keys and sink.
  std::pair<double, double> plain(int r, int i) const {
    const double keys = lse[cell(r, i)], own = static_cast<double>(sink[static_cast<std::size_t>(r)]);
    if (keys == kNothing) return {0, own};
    return {1 / (1 + std::exp(own - keys)),
            keys > own ? keys + std::log1p(std::exp(own - keys)) : own + std::log1p(std::exp(keys - own))};
  }
};

struct Found {
  std::vector<float> output;
  std::vector<double> lse;
};

Found add_on_device(const Outputs& given, bool with_sinks) {
  Gpu gpu;
  DeviceRows rows;
  rows.num_rows = given.rows();
  rows.group = given.shape.group;
  if (with_sinks) rows.sink = gpu.upload(given.sink);
  const DeviceOutputs outputs{gpu.upload(given.output), gpu.upload(given.lse), given.shape.settings,
                              given.shape.value_dim};
  cuda_add_sinks(rows, outputs, gpu.stream);
  return {gpu.download(outputs.output, given.output.size()), gpu.download(outputs.lse, given.lse.size())};
}

class SinksCuda : public OnGpuWith<Shape> {};

TEST_P(SinksCuda, AreOneMoreKeyWithoutAValue) {
  const Outputs given(GetParam());
  const Found found = add_on_device(given, true);
  const auto dim = static_cast<std::size_t>(given.shape.value_dim);
  for (int r = 0; r < given.rows(); ++r)
    for (int i = 0; i < given.shape.settings; ++i) {
      const std::size_t cell = given.cell(r, i);
      const auto [share, lse] = given.plain(r, i);
      ASSERT_TRUE(relatively_near(found.lse[cell], lse, kLse)) << "row " << r << ", setting " << i;
      for (std::size_t d = 0; d < dim; ++d) {
        const double expected = share * static_cast<double>(given.output[cell * dim + d]);
        // Outputs below the normal numbers of float32 may be flushed to 0.
        ASSERT_LE(std::fabs(static_cast<double>(found.output[cell * dim + d]) - expected),
                  kOutput * std::fabs(expected) + 0x1p-126)
            << "row " << r << ", setting " << i << ", channel " << d;
      }
    }
}

TEST_P(SinksCuda, AgreeWithTheCpu) {
  const Outputs given(GetParam());
  const Found found = add_on_device(given, true);
  const auto dim = static_cast<std::size_t>(given.shape.value_dim),
             settings = static_cast<std::size_t>(given.shape.settings);
  for (int n = 0; n < given.shape.queries; ++n) {  // the CPU takes the sinks of one group at a time
    KvHead head;
    head.group = given.shape.group;
    head.num_queries = 1;
    head.sinks = std::span(given.sink).subspan(static_cast<std::size_t>(n * head.group), given.shape.group);
    std::vector<SettingOutputs> of_cpu(static_cast<std::size_t>(head.group));
    for (std::size_t h = 0; h < of_cpu.size(); ++h) {
      const std::size_t first = (static_cast<std::size_t>(n * head.group) + h) * settings;
      of_cpu[h].num_settings = given.shape.settings;
      of_cpu[h].value_dim = given.shape.value_dim;
      of_cpu[h].lse.assign(given.lse.begin() + first, given.lse.begin() + first + settings);
      of_cpu[h].output.assign(given.output.begin() + first * dim, given.output.begin() + (first + settings) * dim);
    }
    add_sinks(head, of_cpu);
    for (std::size_t h = 0; h < of_cpu.size(); ++h) {
      const std::size_t first = (static_cast<std::size_t>(n * head.group) + h) * settings;
      for (std::size_t i = 0; i < settings; ++i)
        ASSERT_TRUE(relatively_near(found.lse[first + i], of_cpu[h].lse[i], kLse))
            << "query " << n << ", head " << h << ", setting " << i;
      for (std::size_t at = 0; at < settings * dim; ++at)
        ASSERT_LE(std::fabs(static_cast<double>(found.output[first * dim + at]) - of_cpu[h].output[at]),
                  kOutput * std::fabs(of_cpu[h].output[at]) + 0x1p-126)
            << "query " << n << ", head " << h;
    }
  }
}

TEST_P(SinksCuda, RowsWithoutSinksStay) {
  const Outputs given(GetParam());
  const Found found = add_on_device(given, false);
  EXPECT_TRUE(found.output == given.output);
  EXPECT_TRUE(found.lse == given.lse);
}

// Channel counts around 128, the number that a thread block handles at a time.
INSTANTIATE_TEST_SUITE_P(Shapes, SinksCuda,
                         testing::Values(Shape{"one_row", 1, 1, 1, 1}, Shape{"few_channels", 7, 3, 2, 48},
                                         Shape{"llama", 4, 9, 6, 128}, Shape{"a_channel_more", 5, 4, 3, 129},
                                         Shape{"latent", 16, 2, 1, 512}, Shape{"many_settings", 2, 3, 150, 64}),
                         [](const auto& info) { return std::string(info.param.name); });

class NoSinkRows : public OnGpu {};

TEST_F(NoSinkRows, AreNoWork) {
  Gpu gpu;
  DeviceRows rows;
  rows.sink = gpu.upload(std::vector<float>{1});
  EXPECT_NO_THROW(cuda_add_sinks(rows, {nullptr, nullptr, 3, 64}, gpu.stream));
  gpu.stream.synchronize();
}

}  // namespace
}  // namespace attest::test
