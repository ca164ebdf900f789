// Smallest and largest elements of segments of keys and of channel groups, on the device.
#include <gtest/gtest.h>

#include "kernels/quantize/ranges_cuda.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

class RangesCuda : public OnGpuWith<Case> {};

TEST_P(RangesCuda, OfSegmentsOfTokens) {
  Gpu of_layer;
  const DeviceLayer on(GetParam(), of_layer);
  const int dim = on.kv.head_dim;
  for (int width : {1, 5, 16, 17, 32, 33, 128, 300}) {
    Gpu gpu;
    const SegmentRanges ranges = cuda_segment_ranges(on.rows, on.kv, width, gpu.arena, gpu.stream);
    const int segments = (on.rows.max_length + width - 1) / width;
    EXPECT_EQ(ranges.lowest.tables, on.rows.num_origins);
    EXPECT_EQ(ranges.lowest.segments, segments);
    EXPECT_EQ(ranges.highest.segments, segments);
    EXPECT_EQ(ranges.lowest.padded, on.padded_dim());
    const auto elements = static_cast<std::size_t>(on.rows.num_origins * segments * on.padded_dim());
    const std::vector<float> lowest = gpu.download(ranges.lowest.data, elements),
                             highest = gpu.download(ranges.highest.data, elements);
    for (int i = 0; i < on.rows.num_origins; ++i) {
      const int length = on.origins[static_cast<std::size_t>(i)].length;
      const std::vector<float>& keys = on.heads[static_cast<std::size_t>(i)].keys;
      for (int begin = 0; begin < length; begin += width)
        for (int d = 0; d < on.padded_dim(); ++d) {
          float low = d < dim ? keys[static_cast<std::size_t>(begin * dim + d)] : 0, high = low;
          for (int j = begin; d < dim && j < std::min(length, begin + width); ++j) {
            low = std::min(low, keys[static_cast<std::size_t>(j * dim + d)]);
            high = std::max(high, keys[static_cast<std::size_t>(j * dim + d)]);
          }
          const auto at = static_cast<std::size_t>((i * segments + begin / width) * on.padded_dim() + d);
          ASSERT_EQ(lowest[at], low) << width << " tokens from " << begin << " of origin " << i << ", channel " << d;
          ASSERT_EQ(highest[at], high) << width << " tokens from " << begin << " of origin " << i << ", channel " << d;
        }
    }
  }
}

TEST_P(RangesCuda, OfGroupsOfChannels) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const std::int64_t all = on.layer.shape.num_kv_heads * on.layer.num_tokens;
  for (bool of_keys : {true, false}) {
    const DeviceTokens x = of_keys ? on.kv.all_keys() : on.kv.all_values();
    const std::vector<float> elements = floats_of(x.type, of_keys ? on.layer.k : on.layer.v, 0, all * x.channels);
    for (int group = 1; group <= x.channels; ++group) {
      if (x.channels % group != 0) continue;
      const std::int64_t vectors = group % 2 == 0 ? all : (all + 1) / 2;
      const auto count = static_cast<std::size_t>(vectors * (x.channels / group));
      const DeviceArena::Scope scope(gpu.arena);
      auto* ranges = gpu.arena.take<float2>(count);
      cuda_channel_ranges(x, vectors, group, ranges, gpu.stream);
      const std::vector<float2> found = gpu.download(ranges, count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto first = elements.begin() + static_cast<std::ptrdiff_t>(i) * group;
        ASSERT_EQ(found[i].x, *std::min_element(first, first + group)) << "group " << i << " of " << group;
        ASSERT_EQ(found[i].y, *std::max_element(first, first + group)) << "group " << i << " of " << group;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RangesCuda, testing::ValuesIn(all_device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
