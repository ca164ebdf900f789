// The decode of a plain FFD cache, against the plain form in double.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/kernels/decode/plain/plain_cache_on_gpu.h"

namespace attest::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Around the borders of blocks, and nothing at all; two have blocks enough that many can be dropped.
const std::vector<int>& lengths_at_borders() {
  static const std::vector<int> lengths{0, 1, 127, 128, 129, 255, 256, 300, 1000, 1100};
  return lengths;
}

FfdCacheShape shape_of(ElementType type, int batch, int num_kv_heads, int group, int head_dim, int value_dim, int bits,
                       std::int64_t max_tokens) {
  return {.batch = batch,
          .num_kv_heads = num_kv_heads,
          .group = group,
          .head_dim = head_dim,
          .value_dim = value_dim,
          .max_tokens = max_tokens,
          .element_type = type,
          .bits = bits,
          .layout = FfdCacheLayout::plain};
}

DecodeProblem problem_of(const FfdCacheShape& shape, const FfdDecodeOptions& options, const std::vector<int>& lengths,
                         bool with_sinks = false) {
  DecodeProblem problem = make_decode_problem(shape, options, lengths, with_sinks, 11);
  calibrate_delta(problem, 0.35);
  return problem;
}

/// Builds a cache, decodes, and compares with the plain form.
DecodeCounts decode_and_compare(const DecodeProblem& problem) {
  Gpu gpu;
  PlainCacheOnGpu cache(problem.shape, problem.lengths, gpu);
  cache.build(problem);
  return expect_decoded(PlainDecode(problem), cache.decode(problem));
}

void expect_not_trivial(const DecodeCounts& counts) {
  EXPECT_GE(counts.share(), 0.1);
  EXPECT_LE(counts.share(), 0.6);
  EXPECT_LE(counts.undecided, 2);
}

struct Size {
  int head_dim, value_dim, group;
  friend std::ostream& operator<<(std::ostream& out, const Size& size) {
    return out << "D " << size.head_dim << ", Dv " << size.value_dim << ", G " << size.group;
  }
};

std::vector<Size> sizes() {
  std::vector<Size> all;
  for (const auto& [dim, value_dim] : {std::pair{64, 64}, {80, 80}, {128, 128}, {192, 128}, {576, 512}})
    for (int group : {1, 2, 3, 4, 5, 7, 8, 16}) all.push_back({dim, value_dim, group});
  // Rows that octets do not fill, and outputs of two and of five channels per thread.
  for (const Size& size : {Size{1, 1, 2}, {7, 5, 4}, {70, 130, 3}, {77, 51, 1}, {100, 257, 2}, {575, 576, 5}})
    all.push_back(size);
  return all;
}

class FfdPlainSizes : public OnGpuWith<Size> {};

TEST_P(FfdPlainSizes, DecodeAgreesWithThePlainForm) {
  const Size size = GetParam();
  int number = size.head_dim + size.group;  // bits, sub-blocks, references and sinks vary across the list
  for (ElementType type : {ElementType::float16, ElementType::bfloat16}) {
    ++number;
    const FfdDecodeOptions options{.pseudo_max = static_cast<FfdReference>(number % 3),
                                   .sub_block = 16 << (number % 4)};
    const auto batch = static_cast<int>(lengths_at_borders().size());
    const int num_kv_heads = size.group < 8 ? 2 : 1, bits = number % 5 == 0 ? 8 : number % 5 == 1 ? 4 : 2;
    const FfdCacheShape shape =
        shape_of(type, batch, num_kv_heads, size.group, size.head_dim, size.value_dim, bits, 1100);
    SCOPED_TRACE(std::string(name_of(type)) + ", " + std::to_string(bits) + " bits, sub-blocks of " +
                 std::to_string(options.sub_block) + ", reference " + std::to_string(number % 3));
    expect_not_trivial(decode_and_compare(problem_of(shape, options, lengths_at_borders(), number % 2 == 0)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FfdPlainSizes, testing::ValuesIn(sizes()));

class FfdPlain : public OnGpuWith<ElementType> {
 protected:
  FfdCacheShape shape(int batch, int group = 4) const { return shape_of(GetParam(), batch, 2, group, 80, 72, 2, 1100); }
};

INSTANTIATE_TEST_SUITE_P(Types, FfdPlain, testing::Values(ElementType::float16, ElementType::bfloat16), name_of_type);

TEST_P(FfdPlain, EveryReferenceAndNumberOfEndBlocks) {
  for (FfdReference reference : {FfdReference::thumbnail, FfdReference::exact, FfdReference::global})
    for (const auto& [sink, local] : {std::pair{1, 1}, {1, 0}, {0, 1}, {4, 4}, {2, 3}})
      for (int sub_block : {16, 32, 64, 128}) {
        if (reference == FfdReference::exact && sink + local > 2) continue;
        SCOPED_TRACE("reference " + std::to_string(static_cast<int>(reference)) + ", sink " + std::to_string(sink) +
                     ", local " + std::to_string(local) + ", sub-blocks of " + std::to_string(sub_block));
        expect_not_trivial(decode_and_compare(problem_of(
            shape(3), {.pseudo_max = reference, .sink_blocks = sink, .local_blocks = local, .sub_block = sub_block},
            {1000, 900, 300})));
      }
}

// Without end blocks there is no pseudo-maximum: -inf, from which nothing is far.
TEST_P(FfdPlain, KeepsAllWithoutAReferenceOrWithAnInfiniteDelta) {
  for (int ends : {0, 1}) {
    DecodeProblem problem = problem_of(shape(2), {.sink_blocks = ends, .local_blocks = ends}, {900, 200});
    problem.delta.assign(problem.delta.size(), ends == 0 ? 1.0f : kInfinity);
    const DecodeCounts counts = decode_and_compare(problem);
    EXPECT_EQ(counts.kept, counts.sub_blocks);
    EXPECT_GT(counts.kept, 0);
  }
}

TEST_P(FfdPlain, TopKKeepsTheBest) {
  for (int n : {1, 2, 5, 13, 56, 1000}) {
    SCOPED_TRACE(n);
    const DecodeCounts counts = decode_and_compare(
        problem_of(shape(3), {.rule = FfdDecodeRule::topk, .sub_block = 16, .keep_sub_blocks = n}, {1000, 500, 100}));
    EXPECT_EQ(counts.kept, 2 * (std::min(n, 56) + std::min(n, 24)));
    EXPECT_LE(counts.undecided, 2);
  }
}

// All blocks have the same keys, so that every score ties; their values differ.
TEST_P(FfdPlain, TopKPrefersLowerIndicesAmongEqualOnes) {
  for (int n : {1, 3, 17}) {
    DecodeProblem problem = make_decode_problem(
        shape(1), {.rule = FfdDecodeRule::topk, .sub_block = 32, .keep_sub_blocks = n}, {900}, false, 3);
    for (std::int64_t pair = 0; pair < problem.pairs(); ++pair)
      for (int t = kFfdBlock; t < 7 * kFfdBlock; ++t)
        std::copy_n(problem.key(pair, t % kFfdBlock), problem.shape.head_dim,
                    problem.k.begin() + (problem.key(pair, t) - problem.k.data()));
    Gpu gpu;
    PlainCacheOnGpu cache(problem.shape, problem.lengths, gpu);
    cache.build(problem);
    const DecodeResults found = cache.decode(problem);
    const PlainDecode plain(problem);
    for (std::int64_t pair = 0; pair < problem.pairs(); ++pair) {
      const PlainSelection selection = plain.select(pair);
      EXPECT_EQ(count(selection.flags), n);
      EXPECT_EQ(decode_difference(plain, pair, selection.flags, selection.magnitude, found, {}), "") << n << " kept";
    }
  }
}

// More pairs than thread blocks: one thread block walks over several blocks, or over all.
TEST_P(FfdPlain, ManyPairs) {
  for (int batch : {65, 130}) {
    std::vector<int> lengths;
    for (int i = 0; i < batch; ++i) lengths.push_back(i * 37 % 800);
    const FfdCacheShape shape = shape_of(GetParam(), batch, 8, 1, 16, 8, 2, 800);
    const DecodeProblem problem = problem_of(shape, {}, lengths);
    const DecodeCounts counts = decode_and_compare(problem);
    EXPECT_LE(counts.undecided, 20) << "of " << counts.sub_blocks;
    EXPECT_LT(counts.share(), 0.8);
  }
}

// More blocks than splits of a pair, and more sub-blocks than a selection has threads.
TEST_P(FfdPlain, OneLongSequence) {
  const FfdCacheShape shape = shape_of(GetParam(), 1, 1, 2, 8, 8, 2, 135000);
  for (const FfdDecodeOptions& options : {FfdDecodeOptions{.sub_block = 16},
                                          {.pseudo_max = FfdReference::global, .sub_block = 128},
                                          {.rule = FfdDecodeRule::topk, .sub_block = 16, .keep_sub_blocks = 3000}})
    expect_not_trivial(decode_and_compare(problem_of(shape, options, {134567})));
}

// Nothing but the sink is left of the first, nothing of the sink in the second.
TEST_P(FfdPlain, SinksFarFromEveryScore) {
  DecodeProblem problem = problem_of(shape(2, 2), {}, {1000, 0}, true);
  problem.sinks = {700, -700, 88, -100};
  decode_and_compare(problem);
}

// The cache could hold much more.
TEST_P(FfdPlain, ShortSequencesInALargeCache) {
  FfdCacheShape large = shape(2);
  large.max_tokens = 20000;
  expect_not_trivial(decode_and_compare(problem_of(large, {.sub_block = 64}, {1000, 140})));
}

TEST_P(FfdPlain, RepeatsBitForBit) {
  const DecodeProblem problem = problem_of(shape(3), {}, {1000, 700, 129}, true);
  Gpu gpu;
  PlainCacheOnGpu cache(problem.shape, problem.lengths, gpu);
  cache.build(problem);
  const DecodeResults first = cache.decode(problem), second = cache.decode(problem);
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(first.lse, second.lse);
  EXPECT_EQ(first.kept, second.kept);
  EXPECT_EQ(std::count_if(first.out.begin(), first.out.end(), [](float x) { return std::isnan(x); }), 0);
}

TEST_P(FfdPlain, ScanAgreesWithThePlainForm) {
  for (int sub_block : {16, 32, 64, 128}) {
    const DecodeProblem problem = problem_of(shape(3, 5), {.sub_block = sub_block}, {1000, 129, 60});
    Gpu gpu;
    PlainCacheOnGpu cache(problem.shape, problem.lengths, gpu);
    cache.build(problem);
    const int group = problem.shape.group;
    const std::int64_t tokens = problem.shape.max_blocks() * kFfdBlock, parts = tokens / sub_block;
    auto* maxima = gpu.arena.take<float>(static_cast<std::size_t>(problem.pairs() * parts));
    auto* scores = gpu.arena.take<float>(static_cast<std::size_t>(problem.pairs() * tokens * group));
    const std::uint16_t* q = cache.upload(problem.q);
    cuda_ffd_plain_scan(cache.shape, cache.view, problem.options, {q, maxima, scores}, gpu.stream);
    const auto found = gpu.download(scores, static_cast<std::size_t>(problem.pairs() * tokens * group));
    const auto largest = gpu.download(maxima, static_cast<std::size_t>(problem.pairs() * parts));
    cuda_ffd_plain_scan(cache.shape, cache.view, problem.options, {q, maxima, nullptr}, gpu.stream);
    const auto again = gpu.download(maxima, static_cast<std::size_t>(problem.pairs() * parts));
    const PlainDecode plain(problem);
    for (std::int64_t pair = 0; pair < problem.pairs(); ++pair) {
      const PlainSelection selection = plain.select(pair);
      const float* own = found.data() + pair * tokens * group;
      for (std::size_t i = 0; i < selection.scores.size(); ++i)
        ASSERT_LE(std::fabs(own[i] - selection.scores[i]), DecodeTolerance{}.score * selection.magnitude) << i;
      for (int part = 0; part < problem.sub_blocks(pair); ++part) {
        const float* first = own + part * sub_block * group;
        ASSERT_EQ(largest[static_cast<std::size_t>(pair * parts + part)],
                  *std::max_element(first, first + sub_block * group));
        ASSERT_EQ(again[static_cast<std::size_t>(pair * parts + part)],
                  largest[static_cast<std::size_t>(pair * parts + part)]);
      }
    }
  }
}

}  // namespace
}  // namespace attest::test
