// Top-k, top-delta and top-p selections of sub-blocks against sorting.
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "kernels/decode/baselines/block_selection_cuda.h"
#include "tests/kernels/decode/baselines/exact_data.h"

namespace attest::test {
namespace {

enum class Values { spread, few, equal, wide };
const char* name_of(Values values) {
  return values == Values::spread  ? "spread"
         : values == Values::few   ? "few"
         : values == Values::equal ? "equal"
                                   : "wide";
}

/// `few`: many ties. `wide`: neighbouring values differ by orders of magnitude, some are -infinity.
float value_of(Values values, Random& random) {
  switch (values) {
    case Values::spread:
      return static_cast<float>(3 * random.normal() - 1);
    case Values::few:
      return static_cast<float>(random.below(5) - 2);
    case Values::equal:
      return -1.5f;
    case Values::wide:
      break;
  }
  if (random.below(20) == 0) return -std::numeric_limits<float>::infinity();
  return static_cast<float>((random.below(2) == 0 ? -1 : 1) * std::pow(10.0, random.uniform(-30, 30)));
}

struct Shape {
  int sub_block, group;
  Values values;
  std::vector<int> lengths;

  std::string name() const {
    return std::string(name_of(values)) + "_" + std::to_string(sub_block) + "_G" + std::to_string(group) + "_L" +
           std::to_string(lengths.front());
  }
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name(); }
};

/// One length has no full block, and rows reach beyond what fits shared memory (16384 sub-blocks).
std::vector<Shape> shapes(const std::vector<Values>& of) {
  std::vector<Shape> all;
  for (Values values : of) {
    all.push_back({128, 4, values, {127, 128, 300, 5000, 128 * 40}});
    all.push_back({16, 7, values, {128, 1000, 20, 3333}});
    all.push_back({32, 1, values, {640, 100000}});
    all.push_back({64, 16, values, {129, 4096}});
    all.push_back({16, 1, values, {300000, 700}});
  }
  return all;
}
std::string name_of_shape(const testing::TestParamInfo<Shape>& info) { return info.param.name(); }

class BlockSelectionCuda : public OnGpuWith<Shape> {
 protected:
  static constexpr int kKvHeads = 2;

  ExactCache cache() {
    const Shape& shape = GetParam();
    const int longest = *std::max_element(shape.lengths.begin(), shape.lengths.end());
    return {.batch = static_cast<int>(shape.lengths.size()),
            .num_kv_heads = kKvHeads,
            .group = shape.group,
            .max_tokens = longest + 200,
            .stride = longest + 200,
            .lengths = gpu->upload(shape.lengths)};
  }
  int sub_blocks(int pair) const { return GetParam().lengths[pair / kKvHeads] / 128 * (128 / GetParam().sub_block); }
  std::vector<float> values(std::size_t count) {
    std::vector<float> out;
    while (out.size() < count) out.push_back(value_of(GetParam().values, random));
    return out;
  }

  /// Runs a selection twice and returns its masks, one vector per pair, after checking counts and padding.
  template <class Select>
  std::vector<Kept> select(const ExactCache& on, Select&& enqueue) {
    const auto maximum = static_cast<std::size_t>(on.max_sub_blocks(GetParam().sub_block));
    const auto pairs = static_cast<std::size_t>(on.pairs());
    BlockSelection selection{gpu->arena.take<std::uint8_t>(pairs * maximum), gpu->arena.take<int>(pairs)};
    std::vector<std::uint8_t> first, mask;
    for (int run = 0; run < 2; ++run) {
      ATTEST_CUDA(cudaMemsetAsync(selection.mask, 0xFF, pairs * maximum, gpu->stream));
      ATTEST_CUDA(cudaMemsetAsync(selection.counts, 0xFF, pairs * sizeof(int), gpu->stream));
      replay(*gpu, [&] { enqueue(selection); });
      mask = gpu->download(selection.mask, pairs * maximum);
      if (run == 0) first = mask;
    }
    EXPECT_EQ(first, mask);
    const std::vector<int> counts = gpu->download(selection.counts, pairs);
    std::vector<Kept> out;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const auto begin = mask.begin() + static_cast<std::ptrdiff_t>(pair * maximum);
      const int own = sub_blocks(static_cast<int>(pair));
      EXPECT_EQ(std::count(begin + own, begin + static_cast<std::ptrdiff_t>(maximum), 0),
                static_cast<std::ptrdiff_t>(maximum) - own)
          << "pair " << pair;
      EXPECT_EQ(std::count(begin, begin + own, 1), counts[pair]) << "pair " << pair;
      EXPECT_EQ(std::count(begin, begin + own, 0), own - counts[pair]) << "pair " << pair;
      out.emplace_back(begin, begin + own);
    }
    return out;
  }

  void SetUp() override {
    OnGpuWith<Shape>::SetUp();
    if (!IsSkipped()) gpu = std::make_unique<Gpu>();
  }
  std::unique_ptr<Gpu> gpu;
  Random random{11};
};

/// Without `wide` ones: numbers of magnitude 1e30 are no scores.
class BlockSelectionOfScoresCuda : public BlockSelectionCuda {};

/// Items in descending order of value, ties to the lower one.
std::vector<int> descending(const std::vector<double>& values) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] > values[b]; });
  return order;
}

TEST_P(BlockSelectionCuda, TopKIsTheHeadOfTheSortedRow) {
  const ExactCache on = cache();
  const int sub_block = GetParam().sub_block, maximum = on.max_sub_blocks(sub_block);
  const std::vector<float> maxima = values(static_cast<std::size_t>(on.pairs()) * maximum);
  const float* device = gpu->upload(maxima);
  for (int keep : {1, 2, 9, 63, maximum / 4 + 1, maximum - 1, maximum, maximum + 100}) {
    const DeviceArena::Scope scope(gpu->arena);
    const std::vector<Kept> found = select(on, [&](const BlockSelection& selection) {
      cuda_select_top_k(on, sub_block, device, keep, selection, gpu->stream);
    });
    for (int pair = 0; pair < on.pairs(); ++pair) {
      const auto begin = maxima.begin() + static_cast<std::ptrdiff_t>(pair) * maximum;
      const std::vector<double> row(begin, begin + sub_blocks(pair));
      Kept expected(row.size(), 0);
      const std::vector<int> order = descending(row);
      for (std::size_t i = 0; i < order.size() && static_cast<int>(i) < keep; ++i) expected[order[i]] = 1;
      ASSERT_EQ(found[pair], expected) << "keep " << keep << ", pair " << pair;
    }
  }
}

TEST_P(BlockSelectionCuda, TopDeltaKeepsWhatOneHeadKeeps) {
  const ExactCache on = cache();
  const int sub_block = GetParam().sub_block, maximum = on.max_sub_blocks(sub_block), per_block = 128 / sub_block;
  const std::vector<float> maxima = values(static_cast<std::size_t>(on.pairs()) * maximum * on.group);
  const float* device = gpu->upload(maxima);
  for (int blocks : {1, 3})
    for (float delta : {0.0f, 2.5f, std::numeric_limits<float>::infinity()}) {
      const DeviceArena::Scope scope(gpu->arena);
      const std::vector<float> deltas = {delta, delta + 1};
      const TopDeltaRule rule{gpu->upload(deltas), blocks, blocks + 1};
      const std::vector<Kept> found = select(on, [&](const BlockSelection& selection) {
        cuda_select_top_delta(on, sub_block, device, rule, selection, gpu->stream);
      });
      for (int pair = 0; pair < on.pairs(); ++pair) {
        const int count = sub_blocks(pair), full = count / per_block;
        const auto at = [&](int place, int head) {
          return maxima[(static_cast<std::size_t>(pair) * maximum + place) * on.group + head];
        };
        Kept expected(static_cast<std::size_t>(count), 0);
        for (int head = 0; head < on.group; ++head) {
          float reference = -std::numeric_limits<float>::infinity();
          for (int place = 0; place < count; ++place)
            if (place / per_block < blocks || place / per_block >= full - blocks - 1)
              reference = std::max(reference, at(place, head));
          for (int place = 0; place < count; ++place)
            if (at(place, head) >= reference - deltas[pair % kKvHeads]) expected[place] = 1;
        }
        ASSERT_EQ(found[pair], expected) << "delta " << delta << ", pair " << pair;
      }
    }
}

/// Sub-blocks of the smallest set whose mass reaches `share` of the whole.
Kept top_p(const std::vector<double>& masses, double share) {
  const double total = std::accumulate(masses.begin(), masses.end(), 0.0);
  Kept kept(masses.size(), 0);
  double sum = 0;
  for (int place : descending(masses)) {
    if (sum > 0 && sum >= share * total) break;
    kept[place] = 1;
    sum += masses[place];
  }
  return kept;
}

TEST_P(BlockSelectionOfScoresCuda, TopPIsTheSmallestSetThatReachesTheShare) {
  // The device's masses and sums are off by less; within it of p a set is right with or without its last member.
  constexpr double kMassError = 1e-5;
  const ExactCache on = cache();
  const int sub_block = GetParam().sub_block, maximum = on.max_sub_blocks(sub_block);
  // Sub-blocks with the same scores have the same mass: the value of a token is that of its place in the sub-block,
  // plus one of its sub-block.
  std::vector<float> scores(static_cast<std::size_t>(on.pairs() * on.max_tokens * on.group));
  const std::vector<float> of_sub_block =
      values(static_cast<std::size_t>(on.pairs()) * (maximum + sub_block) * on.group);
  for (int pair = 0; pair < on.pairs(); ++pair)
    for (int token = 0; token < on.max_tokens; ++token)
      for (int head = 0; head < on.group; ++head)
        scores[(pair * on.max_tokens + token) * on.group + head] =
            of_sub_block[(static_cast<std::size_t>(pair) * maximum + token / sub_block) * on.group + head] -
            static_cast<float>(token % sub_block % 16) / 8;
  const float* device = gpu->upload(scores);
  auto* scratch = gpu->arena.take<std::byte>(top_p_scratch(on, sub_block));
  std::int64_t uncertain = 0, all = 0;
  for (double p : {1e-9, 0.3, 0.85, 0.99, 1.0}) {
    const DeviceArena::Scope scope(gpu->arena);
    const std::vector<Kept> found = select(on, [&](const BlockSelection& selection) {
      cuda_select_top_p(on, sub_block, device, p, scratch, selection, gpu->stream);
    });
    for (int pair = 0; pair < on.pairs(); ++pair) {
      const int count = sub_blocks(pair);
      Kept minimum(static_cast<std::size_t>(count), 0), largest = minimum;
      for (int head = 0; head < on.group; ++head) {
        std::vector<double> masses(static_cast<std::size_t>(count));
        for (int token = 0; token < count * sub_block; ++token)
          masses[token / sub_block] +=
              std::exp(static_cast<double>(scores[(pair * on.max_tokens + token) * on.group + head]));
        const Kept low = top_p(masses, p - 1e-6 - kMassError), high = top_p(masses, p - 1e-6 + kMassError);
        for (int place = 0; place < count; ++place) {
          minimum[place] |= low[place];
          largest[place] |= high[place];
        }
      }
      for (int place = 0; place < count; ++place) {
        uncertain += minimum[place] != largest[place] ? 1 : 0;
        ++all;
        ASSERT_LE(minimum[place], found[pair][place]) << "p " << p << ", pair " << pair << ", sub-block " << place;
        ASSERT_LE(found[pair][place], largest[place]) << "p " << p << ", pair " << pair << ", sub-block " << place;
      }
    }
  }
  EXPECT_LT(uncertain, all / 4) << "the case decides something";
}

const std::vector<Values> kScores{Values::spread, Values::few, Values::equal};
const std::vector<Values> kNumbers{Values::spread, Values::few, Values::equal, Values::wide};
INSTANTIATE_TEST_SUITE_P(Shapes, BlockSelectionCuda, testing::ValuesIn(shapes(kNumbers)), name_of_shape);
INSTANTIATE_TEST_SUITE_P(Shapes, BlockSelectionOfScoresCuda, testing::ValuesIn(shapes(kScores)), name_of_shape);

TEST(BlockSelectionOptions, AreChecked) {
  const ExactCache on{.max_tokens = 100, .stride = 100};
  EXPECT_THROW(cuda_select_top_k(on, 128, nullptr, 0, {}, nullptr), InputError);
  EXPECT_THROW(cuda_select_top_p(on, 128, nullptr, 0, nullptr, {}, nullptr), InputError);
  EXPECT_THROW(cuda_select_top_p(on, 128, nullptr, 1.01, nullptr, {}, nullptr), InputError);
  EXPECT_THROW(cuda_select_top_delta(on, 24, nullptr, {}, {}, nullptr), InputError);
  EXPECT_THROW(cuda_select_top_delta(on, 128, nullptr, {.sink_blocks = -1}, {}, nullptr), InputError);
  EXPECT_THROW(cuda_select_top_delta(on, 128, nullptr, {.local_blocks = -1}, {}, nullptr), InputError);
}

}  // namespace
}  // namespace attest::test
