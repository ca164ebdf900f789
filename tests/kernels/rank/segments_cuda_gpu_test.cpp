// Maxima and masses of segments of a row, on the device.
#include <gtest/gtest.h>

#include "kernels/rank/segments_cuda.h"
#include "tests/kernels/device_rows.h"
#include "tests/kernels/rank/value_rows.h"

namespace attest::test {
namespace {

// expf is off by two units in the last place, and its argument is a rounded difference. The sum of n masses is rounded
// n times.
double mass_error(double x) { return 0x1p-23 * (2 + std::fabs(x)); }
constexpr double kAddition = 0x1p-24;

struct Layout {
  int width;
  std::int64_t stride;
};

/// Rows of scores, and the number of wanted segments of each row: all segments or only the full ones.
struct Segments {
  Rows<float> rows;
  std::vector<int> wanted;

  explicit Segments(int width) {
    Random random(13);
    for (int count : {0, 1, 3, 4, 5, 15, 16, 17, 127, 128, 129, 257, 1000, 4097}) {
      rows.emplace_back();
      for (int i = 0; i < count; ++i) rows.back().push_back(5 * normal(random) - 20);
      wanted.push_back(rows.size() % 3 == 0 ? count / width : (count + width - 1) / width);
    }
  }
  double value(std::size_t r, int i) const { return static_cast<double>(rows[r][static_cast<std::size_t>(i)]); }
  int end(std::size_t r, int segment, int width) const {
    return std::min(static_cast<int>(rows[r].size()), (segment + 1) * width);
  }
};

class SegmentsCuda : public OnGpuWith<Layout> {};

TEST_P(SegmentsCuda, Maxima) {
  const auto [width, stride] = GetParam();
  const Segments segments(width);
  Gpu gpu;
  Random random(14);
  Rows<float> low = segments.rows;
  for (std::vector<float>& row : low)
    for (float& x : row) x = 1e-6f * normal(random);
  const RaggedRows<float> in = gpu.upload_rows(segments.rows, stride);
  const RaggedRows<float> found = gpu.take_rows<float>(segments.wanted, 4100);
  const RaggedRows<double> refined = gpu.take_rows<double>(segments.wanted, 4101),
                           widened = gpu.take_rows<double>(segments.wanted, 4102);
  cuda_segment_maxima(in, width, found, gpu.stream);
  cuda_segment_maxima(in, gpu.upload_rows(low, stride + 1).items, width, refined, gpu.stream);
  cuda_segment_maxima(in, {}, width, widened, gpu.stream);
  Rows<float> expected;
  Rows<double> expected_refined, expected_widened;
  for (std::size_t r = 0; r < segments.rows.size(); ++r) {
    expected.emplace_back();
    expected_refined.emplace_back();
    expected_widened.emplace_back();
    for (int segment = 0; segment < segments.wanted[r]; ++segment) {
      double maximum = -1e300, max_refined = -1e300;
      for (int i = segment * width; i < segments.end(r, segment, width); ++i) {
        maximum = std::max(maximum, segments.value(r, i));
        max_refined =
            std::max(max_refined, segments.value(r, i) + static_cast<double>(low[r][static_cast<std::size_t>(i)]));
      }
      expected.back().push_back(static_cast<float>(maximum));
      expected_widened.back().push_back(maximum);
      expected_refined.back().push_back(max_refined);
    }
  }
  EXPECT_TRUE(gpu.download_rows(found) == expected);
  EXPECT_TRUE(gpu.download_rows(refined) == expected_refined);
  EXPECT_TRUE(gpu.download_rows(widened) == expected_widened);
}

TEST_P(SegmentsCuda, Masses) {
  const auto [width, stride] = GetParam();
  const Segments segments(width);
  Gpu gpu;
  std::vector<float> peaks;
  for (const std::vector<float>& row : segments.rows)
    peaks.push_back(row.empty() ? 0 : *std::max_element(row.begin(), row.end()) + static_cast<float>(peaks.size() % 2));
  const RaggedRows<float> masses = gpu.take_rows<float>(segments.wanted, 4100);
  cuda_segment_masses(gpu.upload_rows(segments.rows, stride), width, gpu.upload(peaks), masses, gpu.stream);
  const Rows<float> found = gpu.download_rows(masses);
  for (std::size_t r = 0; r < segments.rows.size(); ++r)
    for (int segment = 0; segment < segments.wanted[r]; ++segment) {
      double mass = 0, error = 0;
      for (int i = segment * width; i < segments.end(r, segment, width); ++i) {
        const double x = segments.value(r, i) - static_cast<double>(peaks[r]);
        mass += std::exp(x);
        error += std::exp(x) * (mass_error(x) + kAddition * width);
      }
      ASSERT_LE(std::fabs(static_cast<double>(found[r][static_cast<std::size_t>(segment)]) - mass), error)
          << "row " << r << ", segment " << segment;
    }
}

// Includes widths that one or several threads read four items at a time, with rows that are and are not aligned for it.
INSTANTIATE_TEST_SUITE_P(Layouts, SegmentsCuda,
                         testing::Values(Layout{1, 4224}, Layout{4, 4224}, Layout{5, 4224}, Layout{16, 4224},
                                         Layout{24, 4224}, Layout{128, 4224}, Layout{200, 4224}, Layout{5000, 4224},
                                         Layout{16, 4099}, Layout{128, 4099}, Layout{3, 4100}),
                         [](const auto& info) {
                           return std::to_string(info.param.width) + "_of_" + std::to_string(info.param.stride);
                         });

}  // namespace
}  // namespace attest::test
