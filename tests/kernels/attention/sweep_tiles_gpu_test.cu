// Building blocks of a sweep over values: ranges and levels of a tile, staging values in shared memory, and the weights
// that a lane computes.
#include <gtest/gtest.h>

#include "kernels/attention/sweep_tiles.cuh"
#include "kernels/device/multiprocessor.h"
#include "tests/kernels/attention/device_sweep.h"
#include "tests/kernels/device_cases.h"

namespace attest::test {
namespace {

using namespace sweep_tiles;

// Weights this small may be flushed to 0. Kernel and test take exp of the same float32 difference.
constexpr double kVanishingWeight = 0x1p-120;

__global__ void levels_kernel(Task task, int tiles, RowRange* ranges, unsigned long long* levels) {
  const int lane = static_cast<int>(threadIdx.x) % 32, batch_index = static_cast<int>(blockIdx.x);
  const RowBatch batch = task.rows.batches[batch_index];
  if (threadIdx.x < 64)
    ranges[batch_index * 64 + static_cast<int>(threadIdx.x)] = range_of_row(task, batch, static_cast<int>(threadIdx.x));
  const int row_tile = static_cast<int>(threadIdx.x) / 32;
  for (int tile = 0; tile < tiles; ++tile)
    levels[((batch_index * tiles + tile) * 4 + row_tile) * 32 + lane] =
        levels_in_tile(task, batch, row_tile, tile * kTileTokens, lane);
}

class SweepTiles : public OnGpuWith<Case> {};

TEST_P(SweepTiles, KnowWhichLevelsATileHas) {
  constexpr int kSettings = 70;  // more than the 64 bits of a level mask
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const DeviceSweep sweep = random_sweep(on, kSettings, Runs::mixture, 2, gpu);
  std::vector<int> begin, end;
  for (int length : on.visible) {
    begin.push_back(begin.size() % 3 == 0 ? 0 : length / 3);
    end.push_back(begin.size() % 4 == 3 ? length / 2 + 1
                                        : length + 50);  // range_of_row() clamps the end to the visible length
  }
  for (bool partly : {false, true})
    for (bool leveled : {false, true}) {
      Task task{.rows = on.rows,
                .kv = on.kv,
                .view = sweep.view,
                .partials = {},
                .tokens_per_split = 0,
                .num_value_parts = 1,
                .lowest_order = 0,
                .streams = false};
      if (partly) task.view.begin = gpu.upload(begin), task.view.end = gpu.upload(end);
      if (!leveled) task.view.levels = {};
      const int tiles = (on.rows.max_length + kTileTokens - 1) / kTileTokens;
      const auto batches = static_cast<std::size_t>(on.rows.num_batches);
      auto* ranges = gpu.arena.take<RowRange>(batches * 64);
      auto* levels = gpu.arena.take<unsigned long long>(batches * static_cast<std::size_t>(tiles) * 128);
      levels_kernel<<<on.rows.num_batches, 128, 0, gpu.stream>>>(task, tiles, ranges, levels);
      const std::vector<RowRange> found = gpu.download(ranges, batches * 64);
      const auto masks = gpu.download(levels, batches * static_cast<std::size_t>(tiles) * 128);
      for (std::size_t b = 0; b < batches; ++b) {
        std::vector<unsigned long long> expected(static_cast<std::size_t>(tiles) * 4, 0);
        for (int i = 0; i < 64; ++i) {
          const int r = on.batches[b].first_row + i;
          const bool in_batch = i < on.batches[b].num_rows;
          const int first = in_batch && partly ? begin[static_cast<std::size_t>(r)] : 0,
                    last = !in_batch ? 0
                           : partly  ? std::min(end[static_cast<std::size_t>(r)], on.length(r))
                                     : on.length(r);
          ASSERT_EQ(found[b * 64 + static_cast<std::size_t>(i)].begin, first) << "row " << i << " of batch " << b;
          ASSERT_EQ(found[b * 64 + static_cast<std::size_t>(i)].end, last) << "row " << i << " of batch " << b;
          for (int j = first; j < last; ++j) {
            const int level = leveled ? sweep.level(r, j) : 0;
            if (level < kSettings) expected[static_cast<std::size_t>(j / 128 * 4 + i / 16)] |= 1ull << level % 64;
          }
        }
        for (std::size_t i = 0; i < expected.size() * 32; ++i)
          ASSERT_EQ(masks[b * expected.size() * 32 + i], expected[i / 32]) << "batch " << b << ", tile " << i / 128;
      }
    }
}

/// Multiplies values by a power of two that depends on their place.
struct ScaledValues {
  __host__ __device__ static float factor(std::int64_t value, int octet) {
    return static_cast<float>(1 << (static_cast<int>(value % 3) + octet % 2));
  }
  __device__ void operator()(const ValuePlace& place, float (&value)[kOctet]) const {
    for (float& x : value) x *= factor(place.value, place.channel / kOctet);
  }
};

/// Copies the staged tile to out [parts, 128 tokens, 128 channels].
template <class Form>
__global__ void __launch_bounds__(kThreads)
    stage_kernel(Task task, Form form, RowBatch batch, std::int64_t first_value, int first, int channel, float* out) {
  extern __shared__ __align__(16) std::uint16_t staged[];
  if (task.streams) {
    start_value_copy(task, batch, first_value, first, channel, staged);
    commit_copies();
    await_copies<0>();
  } else {
    stage_values(task, form, batch, first_value, first, channel, staged);
  }
  __syncthreads();
  for (int part = 0; part < task.num_value_parts; ++part)
    for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kChannels; i += kThreads)
      out[part * kTileTokens * kChannels + i] = __uint_as_float(
          static_cast<std::uint32_t>(staged[part * kPartElements + i / kChannels * kPitch + i % kChannels]) << 16);
}

/// Stages every tile of the layer's first origin and compares the sum of its parts with value(token, channel).
template <class Form, class Value>
void expect_staged(const DeviceLayer& on, Gpu& gpu, const Form& form, int parts, bool streams, Value&& value) {
  const RowBatch& batch = on.batches[0];
  const KeyOrigin& origin = on.origins[static_cast<std::size_t>(batch.origin)];
  const std::int64_t first_value = origin.kv_head * on.layer.num_tokens + origin.first_key;
  const Task task{.rows = on.rows,
                  .kv = on.kv,
                  .view = {},
                  .partials = {},
                  .tokens_per_split = 0,
                  .num_value_parts = parts,
                  .lowest_order = 0,
                  .streams = streams};
  const std::size_t bytes = static_cast<std::size_t>(parts) * kPartElements * 2, tile = kTileTokens * kChannels;
  float* out = gpu.arena.take<float>(tile * static_cast<std::size_t>(parts));
  allow_shared_memory(stage_kernel<Form>, bytes);
  for (int first = 0; first < batch.length; first += kTileTokens)
    for (int channel = 0; channel < on.kv.value_dim; channel += kChannels) {
      stage_kernel<<<1, kThreads, bytes, gpu.stream>>>(task, form, batch, first_value, first, channel, out);
      ATTEST_CUDA_LAUNCHED(stage_kernel);
      const std::vector<float> found = gpu.download(out, tile * static_cast<std::size_t>(parts));
      for (std::size_t i = 0; i < tile; ++i) {
        const int token = first + static_cast<int>(i) / kChannels, d = channel + static_cast<int>(i) % kChannels;
        double sum = 0;
        for (int part = 0; part < parts; ++part)
          sum += static_cast<double>(found[static_cast<std::size_t>(part) * tile + i]);
        const bool there = token < batch.length && d < on.kv.value_dim;
        ASSERT_EQ(sum, there ? value(token, d) : 0) << "token " << token << ", channel " << d;
      }
    }
}

TEST_P(SweepTiles, StageValuesAsPartsThatAddUp) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  const ElementType type = on.kv.type;
  const int parts = type == ElementType::bfloat16 ? 1 : type == ElementType::float16 ? 2 : 3;
  const Query& query = on.row(0);
  expect_staged(on, gpu, ExactValues{}, parts, false, [&](int j, int d) { return query.v(j, d); });
  const KeyOrigin& origin = on.origins[0];
  const std::int64_t first_value = origin.kv_head * on.layer.num_tokens + origin.first_key;
  expect_staged(on, gpu, ScaledValues{}, parts, false, [&](int j, int d) {
    return query.v(j, d) * static_cast<double>(ScaledValues::factor(first_value + j, d / kOctet));
  });
  if (type == ElementType::bfloat16 && on.kv.value_dim % kOctet == 0)
    expect_staged(on, gpu, ExactValues{}, 1, true, [&](int j, int d) { return query.v(j, d); });
}

// Every element type, with channel counts that fill tiles, do not fill them, and are not multiples of eight.
INSTANTIATE_TEST_SUITE_P(Cases, SweepTiles, testing::ValuesIn(device_cases()), name_of_case);

struct LaneResult {
  float2 weights[4];
  std::uint32_t levels[4];
  bool have[2];
};

/// Each warp handles 16 tokens of both rows.
__global__ void lane_kernel(LaneRow a, LaneRow b, std::uint32_t level, float max, LaneResult* out) {
  const LaneRow rows[2] = {a, b};
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  LaneTokens tokens;
  tokens.load(rows, warp * 16 + lane % 4 * 2);
  LaneResult& own = out[threadIdx.x];
  for (int i = 0; i < 4; ++i) {
    own.weights[i] = tokens.weights(i, level, max);
    own.levels[i] = tokens.levels[i];
  }
  for (int half = 0; half < 2; ++half) own.have[half] = tokens.have(half, level);
}

class LaneTokensCuda : public OnGpu {};

TEST_F(LaneTokensCuda, WeighTheTokensOfTheirRowsAtALevel) {
  constexpr int kTokens = 128, kWanted = 2;
  constexpr float kMax = 3;
  Random random(8);
  std::vector<float> scores[2];
  std::vector<Level> levels[2];
  const RowRange ranges[2] = {{5, 100}, {0, 77}};  // begin and end inside pairs of tokens
  for (int half = 0; half < 2; ++half)
    for (int j = 0; j < kTokens; ++j) {
      scores[half].push_back(static_cast<float>(kMax - 10 * random.uniform()));
      levels[half].push_back(static_cast<Level>(random.below(4)));
    }
  Gpu gpu;
  const LaneRow rows[2] = {{ranges[0], gpu.upload(scores[0]), gpu.upload(levels[0])},
                           {ranges[1], gpu.upload(scores[1]), gpu.upload(levels[1])}};
  auto* out = gpu.arena.take<LaneResult>(kTokens * 2);
  lane_kernel<<<1, kTokens * 2, 0, gpu.stream>>>(rows[0], rows[1], kWanted, kMax, out);
  const std::vector<LaneResult> found = gpu.download(out, kTokens * 2);
  for (int thread = 0; thread < kTokens * 2; ++thread) {
    const LaneResult& own = found[static_cast<std::size_t>(thread)];
    bool have[2] = {};
    for (int i = 0; i < 8; ++i) {
      const int half = i / 2 % 2, token = thread / 32 * 16 + thread % 4 * 2 + i / 4 * 8 + i % 2;
      const auto j = static_cast<std::size_t>(token);
      const bool seen = token >= ranges[half].begin && token < ranges[half].end;
      const bool there = seen && levels[half][j] == kWanted;
      have[half] = have[half] || there;
      const double x = static_cast<double>(scores[half][j] - kMax), expected = there ? std::exp(x) : 0;
      const double weight = static_cast<double>(i % 2 == 0 ? own.weights[i / 2].x : own.weights[i / 2].y);
      ASSERT_LE(std::fabs(weight - expected), there ? expected * weight_error(x) + kVanishingWeight : 0)
          << "thread " << thread << ", token " << token;
      ASSERT_EQ(own.levels[i / 2] >> (i % 2 * 16) & 0xFFFFu, seen ? levels[half][j] : LaneTokens::kNone);
    }
    ASSERT_EQ(own.have[0], have[0]) << "thread " << thread;
    ASSERT_EQ(own.have[1], have[1]) << "thread " << thread;
  }
}

__global__ void pair_kernel(const float2* pairs, int count, std::uint32_t* leading, float2* rest) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= count) return;
  float2 x = pairs[i];
  leading[i] = split_leading_bf16_pair(x);
  rest[i] = x;
}

TEST_F(LaneTokensCuda, PairsLoseTheirLeadingParts) {
  Random random(9);
  std::vector<float2> pairs;
  for (int i = 0; i < 200; ++i)
    pairs.push_back({static_cast<float>(random.uniform()), static_cast<float>(random.normal())});
  pairs[0] = {0, 1};
  Gpu gpu;
  auto* leading = gpu.arena.take<std::uint32_t>(pairs.size());
  auto* rest = gpu.arena.take<float2>(pairs.size());
  pair_kernel<<<1, 256, 0, gpu.stream>>>(gpu.upload(pairs), static_cast<int>(pairs.size()), leading, rest);
  const std::vector<std::uint32_t> words = gpu.download(leading, pairs.size());
  const std::vector<float2> left = gpu.download(rest, pairs.size());
  const auto expect = [](float x, std::uint32_t bits, float other) {
    const double part = static_cast<double>(std::bit_cast<float>(bits << 16));
    EXPECT_EQ(part, to_type(ElementType::bfloat16, static_cast<double>(x)));
    EXPECT_EQ(static_cast<double>(other), static_cast<double>(x) - part);
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    expect(pairs[i].x, words[i] & 0xFFFFu, left[i].x);
    expect(pairs[i].y, words[i] >> 16, left[i].y);
  }
}

}  // namespace
}  // namespace attest::test
