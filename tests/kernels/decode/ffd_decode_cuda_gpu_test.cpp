// FFD's decode in both layouts of the cache, against the plain form in double.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <vector>

#include "kernels/decode/fused/ffd_fragments.cuh"
#include "kernels/device/multiprocessor.h"
#include "tests/kernels/decode/decode_cases.h"

namespace attest::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Around the borders of blocks, and nothing at all; two have blocks enough that many can be dropped.
const std::vector<int>& lengths_at_borders() {
  static const std::vector<int> lengths{0, 1, 127, 128, 129, 255, 256, 300, 1000, 1100};
  return lengths;
}

/// Very different numbers of thread blocks for the pairs, all of them together; none if the pairs are more.
FfdDeal uneven_deal(std::int64_t pairs) {
  const int ctas = std::min(num_multiprocessors(), kFfdMaxCtas);
  if (pairs > ctas) return {};
  std::vector<int> counts(static_cast<std::size_t>(pairs), 1);
  for (std::size_t left = static_cast<std::size_t>(ctas) - counts.size(), i = 0; left > 0; --left, ++i)
    ++counts[i % counts.size() * (i % 3) / 2];
  return deal_of(counts);
}

/// Every way to launch and to deal must give the results of the plain form, and twice the same bits.
DecodeCounts decode_and_compare(const DecodeProblem& problem) {
  struct Way {
    const char* name;
    FfdLaunches launches;
    FfdBalance balance;
    bool dealt = false;
  };
  std::vector<Way> ways{{"static", FfdLaunches::fused, FfdBalance::static_shares}};
  if (problem.shape.layout == FfdCacheLayout::fragments) {
    ways.push_back({"automatic", FfdLaunches::fused, FfdBalance::automatic});
    ways.push_back({"dealt", FfdLaunches::fused, FfdBalance::automatic, true});
    ways.push_back({"balanced", FfdLaunches::fused, FfdBalance::balanced});
    ways.push_back({"split", FfdLaunches::split, FfdBalance::automatic});
  }
  Gpu gpu;
  CacheOnGpu cache(problem, gpu);
  const PlainDecode plain(problem);
  FfdDecodeOptions options = problem.options;
  const FfdDeal deal = uneven_deal(problem.pairs());
  DecodeCounts counts;
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    options.launches = way.launches;
    options.balance = way.balance;
    const FfdDeal* const given = way.dealt ? &deal : nullptr;
    const DecodeResults first = cache.decode(options, given), second = cache.decode(options, given);
    counts = expect_decoded(plain, first, tolerance_of(problem.shape));
    EXPECT_EQ(first.out, second.out);
    EXPECT_EQ(first.lse, second.lse);
    EXPECT_EQ(first.kept, second.kept);
  }
  return counts;
}

void expect_not_trivial(const DecodeCounts& counts) {
  EXPECT_GE(counts.share(), 0.1);
  EXPECT_LE(counts.share(), 0.6);
  EXPECT_LE(counts.undecided, 4);
}

struct Size {
  FfdCacheLayout layout;
  ElementType type;
  int head_dim, value_dim, group, bits;
  friend std::ostream& operator<<(std::ostream& out, const Size& s) {
    return out << (s.layout == FfdCacheLayout::fragments ? "fragments" : "row_major") << "_D" << s.head_dim << "_Dv"
               << s.value_dim << "_G" << s.group << "_" << s.bits << "bit_" << name_of(s.type);
  }
};

std::vector<Size> sizes() {
  std::vector<Size> all;
  for (ElementType type : {ElementType::float16, ElementType::bfloat16}) {
    for (int dim : {64, 128})
      for (int group : {1, 2, 3, 4, 5, 7, 8, 9, 16})
        all.push_back({FfdCacheLayout::fragments, type, dim, dim, group, 2});
    for (int bits : {4, 8})
      for (int group : {1, 3, 4}) all.push_back({FfdCacheLayout::fragments, type, 128, 128, group, bits});
    // Also rows that end within a byte of codes, and outputs of one to five channels per thread.
    int number = type == ElementType::float16 ? 0 : 1;
    for (const auto& [dim, value_dim] : {std::pair{64, 64},
                                         {80, 80},
                                         {192, 128},
                                         {576, 512},
                                         {1, 1},
                                         {7, 5},
                                         {70, 130},
                                         {77, 51},
                                         {100, 257},
                                         {575, 576}})
      for (int group : {1, 3, 8})
        all.push_back({FfdCacheLayout::row_major, type, dim, value_dim, group, 2 << number++ % 3});
    all.push_back({FfdCacheLayout::row_major, type, 128, 128, 16, 2});
  }
  return all;
}

class FfdDecodeSizes : public OnGpuWith<Size> {
 protected:
  FfdCacheShape shape(int batch, int num_kv_heads, std::int64_t max_tokens) const {
    const Size& s = GetParam();
    return {.batch = batch,
            .num_kv_heads = num_kv_heads,
            .group = s.group,
            .head_dim = s.head_dim,
            .value_dim = s.value_dim,
            .max_tokens = max_tokens,
            .element_type = s.type,
            .bits = s.bits,
            .layout = s.layout};
  }
};

INSTANTIATE_TEST_SUITE_P(All, FfdDecodeSizes, testing::ValuesIn(sizes()), testing::PrintToStringParamName());

TEST_P(FfdDecodeSizes, LengthsAtBorders) {
  const Size& s = GetParam();
  const int number = s.head_dim / 64 + s.group + s.bits;  // sub-blocks, pseudo-maxima and sinks vary across the list
  for (int i = 0; i < (s.layout == FfdCacheLayout::fragments ? 2 : 1); ++i) {
    const FfdDecodeOptions options{.pseudo_max = static_cast<FfdDecodePseudoMax>((number + i) % 3),
                                   .sub_block = 16 << ((number + i) % 4)};
    SCOPED_TRACE("sub-blocks of " + std::to_string(options.sub_block) + ", pseudo-max " +
                 std::to_string((number + i) % 3));
    expect_not_trivial(decode_and_compare(
        problem_of(shape(10, s.group < 8 ? 2 : 1, 1100), options, lengths_at_borders(), (number + i) % 2 == 0)));
  }
}

// Whole thread blocks are dealt to pairs, some with no block, some with the tail alone.
TEST_P(FfdDecodeSizes, SequencesOfOneLength) {
  const Size& s = GetParam();
  if (s.layout == FfdCacheLayout::row_major) return;
  const int number = s.head_dim / 64 + s.group + s.bits;
  for (int length : {100, 128, 1100, 2900}) {
    const FfdDecodeOptions options{.pseudo_max = static_cast<FfdDecodePseudoMax>((number + length) % 3),
                                   .sub_block = 16 << (number + length) % 4};
    SCOPED_TRACE(std::to_string(length) + " tokens, sub-blocks of " + std::to_string(options.sub_block));
    const DecodeCounts counts =
        decode_and_compare(problem_of(shape(4, 2, 3000), options, std::vector<int>(4, length), number % 2 == 0));
    EXPECT_LE(counts.undecided, 8) << "of " << counts.sub_blocks;
    if (length > 1000) {
      EXPECT_GE(counts.share(), 0.1);
    }
  }
}

// Eight KV heads and one length: a pair's blocks are dealt to its thread blocks in turn.
TEST_P(FfdDecodeSizes, OneLength) {
  if (GetParam().layout == FfdCacheLayout::row_major) return;  // its blocks are always dealt so
  expect_not_trivial(decode_and_compare(problem_of(shape(1, 8, 2200), {.sub_block = 64}, {2100}, true)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, FfdDecode, decode_kinds(), testing::PrintToStringParamName());

TEST_P(FfdDecode, EveryPseudoMaxAndNumberOfBoundaryBlocks) {
  for (FfdDecodePseudoMax pseudo_max :
       {FfdDecodePseudoMax::thumbnail, FfdDecodePseudoMax::exact, FfdDecodePseudoMax::global})
    for (const auto& [sink, local] : {std::pair{1, 1}, {1, 0}, {0, 1}, {4, 4}, {2, 3}})
      for (int sub_block : {16, 128}) {
        if (pseudo_max == FfdDecodePseudoMax::exact && sink + local > 2) continue;
        SCOPED_TRACE("pseudo-max " + std::to_string(static_cast<int>(pseudo_max)) + ", sink " + std::to_string(sink) +
                     ", local " + std::to_string(local) + ", sub-blocks of " + std::to_string(sub_block));
        expect_not_trivial(decode_and_compare(problem_of(
            shape(2), {.pseudo_max = pseudo_max, .sink_blocks = sink, .local_blocks = local, .sub_block = sub_block},
            {1000, 300})));
      }
}

// Without boundary blocks there is no pseudo-maximum: -inf, from which nothing is far.
TEST_P(FfdDecode, KeepsAllWithoutAReferenceOrWithAnInfiniteDelta) {
  for (int blocks : {0, 1}) {
    DecodeProblem problem = problem_of(shape(2), {.sink_blocks = blocks, .local_blocks = blocks}, {900, 200});
    problem.delta.assign(problem.delta.size(), blocks == 0 ? 1.0f : kInfinity);
    const DecodeCounts counts = decode_and_compare(problem);
    EXPECT_EQ(counts.kept, counts.sub_blocks);
    EXPECT_GT(counts.kept, 0);
  }
}

// The block of the pseudo-max reaches it: its score is computed twice, with the same bits.
TEST_P(FfdDecode, DeltaZeroKeepsTheBlockOfThePseudoMax) {
  const DecodeProblem problem = problem_of(shape(8, 2200), {}, {1000, 128, 300, 2100, 700, 1500, 400, 2000});
  DecodeProblem zero = problem;
  zero.delta.assign(zero.delta.size(), 0.0f);
  Gpu gpu;
  CacheOnGpu cache(zero, gpu);
  for (FfdBalance balance : {FfdBalance::static_shares, FfdBalance::automatic, FfdBalance::balanced})
    for (int kept : cache.decode({.scale = zero.options.scale, .balance = balance}).kept) EXPECT_GE(kept, 1);
}

TEST_P(FfdDecode, EveryKvHeadHasItsDelta) {
  DecodeProblem problem = problem_of(shape(2), {}, {1000, 700});
  problem.delta[0] *= 0.5f;
  problem.delta[1] = kInfinity;
  decode_and_compare(problem);
}

TEST_P(FfdDecode, TopKKeepsTheBest) {
  for (int n : {1, 2, 5, 13, 56, 1000}) {
    SCOPED_TRACE(n);
    const DecodeCounts counts = decode_and_compare(
        problem_of(shape(3), {.rule = FfdDecodeRule::topk, .sub_block = 16, .keep_sub_blocks = n}, {1000, 500, 100}));
    EXPECT_EQ(counts.kept, 2 * (std::min(n, 56) + std::min(n, 24)));
  }
}

TEST_P(FfdDecode, TopKPrefersLowerIndicesAmongEqualOnes) {
  for (int n : {1, 3, 17}) {
    DecodeProblem problem = make_decode_problem(
        shape(1), {.rule = FfdDecodeRule::topk, .sub_block = 32, .keep_sub_blocks = n}, {900}, false, 3);
    for (std::int64_t pair = 0; pair < problem.pairs(); ++pair)
      for (int t = kFfdBlock; t < 7 * kFfdBlock; ++t)
        std::copy_n(problem.key(pair, t % kFfdBlock), problem.shape.head_dim,
                    problem.k.begin() + (problem.key(pair, t) - problem.k.data()));
    Gpu gpu;
    CacheOnGpu cache(problem, gpu);
    const DecodeResults found = cache.decode(problem.options);
    const PlainDecode plain(problem);
    for (std::int64_t pair = 0; pair < problem.pairs(); ++pair) {
      const PlainSelection selection = plain.select(pair);
      EXPECT_EQ(count(selection.flags), n);
      EXPECT_EQ(
          decode_difference(plain, pair, selection.flags, selection.magnitude, found, tolerance_of(problem.shape)), "")
          << n << " kept";
    }
  }
}

// More segments per thread block than it holds at a time.
TEST_P(FfdDecode, ManyPairs) {
  std::vector<int> lengths;
  for (int i = 0; i < 2600; ++i) lengths.push_back(i * 37 % 140);
  const FfdCacheShape many = shape(2600, 140, 1);
  const DecodeCounts counts = decode_and_compare(problem_of(many, {}, lengths));
  EXPECT_LE(counts.undecided, 20) << "of " << counts.sub_blocks;
  EXPECT_GT(counts.sub_blocks, 100);
}

// Twice as many pairs of one length as multiprocessors, but one: thread blocks have two whole pairs, and the last one.
// They have fewer blocks than a thread block has warps, and more.
TEST_P(FfdDecode, WholePairs) {
  if (GetParam().layout == FfdCacheLayout::row_major) return;
  for (int length : {650, 2200}) {
    SCOPED_TRACE(length);
    FfdCacheShape many = shape(2 * num_multiprocessors() - 1, length + 50, 1);
    many.num_kv_heads = 1;
    const std::vector<int> lengths(static_cast<std::size_t>(many.batch), length);
    const DecodeCounts counts = decode_and_compare(problem_of(many, {.sub_block = 32}, lengths, true));
    EXPECT_LE(counts.undecided, 20) << "of " << counts.sub_blocks;
    EXPECT_GE(counts.share(), 0.1);
  }
}

// More blocks than a warp's ring of copies holds, where whole thread blocks are dealt to pairs; with everything kept, a
// warp has more tiles than lanes that look them up.
TEST_P(FfdDecode, LongSequencesOfOneLength) {
  if (GetParam().layout == FfdCacheLayout::row_major) return;
  const int pairs = num_multiprocessors() / 2;
  FfdCacheShape two_each = shape(pairs, 17500, 1);
  two_each.num_kv_heads = 1;
  const std::vector<int> lengths(static_cast<std::size_t>(pairs), 17300);
  DecodeProblem problem = problem_of(two_each, {.sub_block = 64}, lengths, true);
  const DecodeCounts counts = decode_and_compare(problem);
  EXPECT_LE(counts.undecided, 20) << "of " << counts.sub_blocks;
  EXPECT_GE(counts.share(), 0.1);
  problem.delta.assign(1, kInfinity);
  EXPECT_EQ(decode_and_compare(problem).share(), 1);
}

// A cache knows whether the sequences that it was last filled with are of one length.
TEST_P(FfdDecode, ACacheFilledAnewWithOtherLengths) {
  const DecodeProblem equal = problem_of(shape(4, 1100), {.sub_block = 32}, {1000, 1000, 1000, 1000});
  const DecodeProblem unequal = problem_of(shape(4, 1100), {.sub_block = 32}, {1000, 1, 1100, 129});
  Gpu gpu;
  CacheOnGpu cache(equal, gpu);
  for (const DecodeProblem* const filled : {&equal, &unequal, &equal}) {
    cache.cache.build(cache.upload(filled->k), cache.upload(filled->v), filled->stride, filled->lengths.data(),
                      gpu.stream);
    EXPECT_EQ(cache.cache.view().equal_lengths, filled == &equal);
    for (FfdBalance balance : {FfdBalance::static_shares, FfdBalance::balanced}) {
      DecodeProblem problem = *filled;
      problem.q = equal.q, problem.delta = equal.delta;  // those of the cache's calls
      problem.options.balance = balance;
      expect_decoded(PlainDecode(problem), cache.decode(problem.options), tolerance_of(problem.shape));
    }
  }
}

// A call may begin while the one before ends, on another cache: no result is of the wrong one, or of both.
TEST_P(FfdDecode, CallsInARow) {
  FfdCacheShape one = shape(1, 2200);
  one.num_kv_heads = 8;
  FfdCacheShape full = shape(8, 700);
  full.num_kv_heads = 8;
  for (FfdBalance balance : {FfdBalance::static_shares, FfdBalance::automatic, FfdBalance::balanced}) {
    SCOPED_TRACE(static_cast<int>(balance));
    const FfdDecodeOptions options{.sub_block = 64, .balance = balance};
    const DecodeProblem problems[] = {problem_of(one, options, {2100}), problem_of(one, options, {1500}, true),
                                      problem_of(full, options, {650, 1, 128, 400, 699, 300, 500, 129})};
    Gpu gpu;
    std::deque<CacheOnGpu> caches;
    std::vector<DecodeResults> alone;
    for (const DecodeProblem& problem : problems) alone.push_back(caches.emplace_back(problem, gpu).decode(options));
    for (CacheOnGpu& cache : caches) cache.clear_results();
    gpu.stream.synchronize();
    for (int i = 0; i < 12; ++i) caches[static_cast<std::size_t>(i % 5 % 3)].enqueue(options);
    for (std::size_t i = 0; i < caches.size(); ++i) {
      const DecodeResults found = caches[i].results();
      EXPECT_EQ(found.out, alone[i].out);
      EXPECT_EQ(found.lse, alone[i].lse);
      EXPECT_EQ(found.kept, alone[i].kept);
    }
  }
}

// A pair has a cluster of 16 thread blocks down to 1, in which some have no block of the sequence.
TEST_P(FfdDecode, EverySizeOfACluster) {
  if (GetParam().layout == FfdCacheLayout::row_major) return;
  for (int batch : {1, 4, 8, 16, 33, 60}) {
    SCOPED_TRACE(batch);
    std::vector<int> lengths;
    for (int i = 0; i < batch; ++i) lengths.push_back(i * 397 % 1100 + (batch == 1 ? 1050 : 0));
    const DecodeCounts counts = decode_and_compare(problem_of(shape(batch, 1100), {.sub_block = 32}, lengths, true));
    EXPECT_LE(counts.undecided, 20) << "of " << counts.sub_blocks;
    EXPECT_GE(counts.share(), 0.1);
  }
}

// More blocks than a thread block of a cluster has warps.
TEST_P(FfdDecode, ALongSequenceInClusters) {
  if (GetParam().layout == FfdCacheLayout::row_major) return;
  FfdCacheShape long_one = shape(1, 18500, 1);
  long_one.num_kv_heads = 8;
  expect_not_trivial(decode_and_compare(problem_of(long_one, {.sub_block = 64}, {18400})));
}

// Every warp has a block, and keeps some of it: clusters of two thread blocks, and of the most that a GPU holds.
TEST_P(FfdDecode, EveryWarpOfAClusterHasABlock) {
  if (GetParam().layout == FfdCacheLayout::row_major) return;
  for (const auto& [batch, length] : {std::pair{8, 4096}, {1, 16384}, {1, 9000}}) {
    SCOPED_TRACE(std::to_string(batch) + " of " + std::to_string(length));
    FfdCacheShape wide = shape(batch, length);
    wide.num_kv_heads = 8, wide.head_dim = wide.value_dim = 128;
    const DecodeCounts counts =
        decode_and_compare(problem_of(wide, {}, std::vector<int>(static_cast<std::size_t>(batch), length)));
    EXPECT_LE(counts.undecided, 20) << "of " << counts.sub_blocks;
    EXPECT_GE(counts.share(), 0.1);
  }
}

TEST_P(FfdDecode, SinksFarFromEveryScore) {
  DecodeProblem problem = problem_of(shape(2, 1100, 2), {}, {1000, 0}, true);
  problem.sinks = {700, -700, 88, -100};
  decode_and_compare(problem);
}

TEST_P(FfdDecode, ShortSequencesInALargeCache) {
  expect_not_trivial(decode_and_compare(problem_of(shape(2, 20000), {.sub_block = 64}, {1000, 140})));
}

// More blocks than splits of a pair, and more sub-blocks than a selection has threads.
TEST_P(FfdDecode, OneLongSequence) {
  if (GetParam().layout == FfdCacheLayout::fragments) return;
  FfdCacheShape long_one = shape(1, 135000, 2);
  long_one.num_kv_heads = 1, long_one.head_dim = long_one.value_dim = 8;
  for (const FfdDecodeOptions& options : {FfdDecodeOptions{.sub_block = 16},
                                          {.pseudo_max = FfdDecodePseudoMax::global, .sub_block = 128},
                                          {.rule = FfdDecodeRule::topk, .sub_block = 16, .keep_sub_blocks = 3000}})
    expect_not_trivial(decode_and_compare(problem_of(long_one, options, {134567})));
}

// A cache that grows token by token decodes like one that was built at once, and stops where it is full.
TEST_P(FfdDecode, AppendingGivesTheSameResults) {
  for (FfdDecodePseudoMax pseudo_max : {FfdDecodePseudoMax::thumbnail, FfdDecodePseudoMax::exact}) {
    const DecodeProblem problem = problem_of(shape(1, 400), {.pseudo_max = pseudo_max}, {400}, true);
    Gpu gpu;
    CacheOnGpu grown(problem, {0}, gpu);
    for (int length = 1; length <= 400; ++length) {
      grown.append({length - 1});
      if (length % kFfdBlock > 1 && length % kFfdBlock < kFfdBlock - 1 && length != 400) continue;
      CacheOnGpu built(problem, {length}, gpu);
      const DecodeResults expected = built.decode(problem.options), found = grown.decode(problem.options);
      ASSERT_EQ(found.out, expected.out) << length;
      ASSERT_EQ(found.lse, expected.lse) << length;
      ASSERT_EQ(found.kept, expected.kept) << length;
    }
    const DecodeResults full = grown.decode(problem.options);
    grown.append({0});
    EXPECT_EQ(grown.decode(problem.options).out, full.out);
  }
}

// Codes and residuals are those of the plain quantiser, bit for bit. Row-major ones: ffd_reference_build_cuda_gpu_test.
TEST_P(FfdDecode, CodesAndResidualsAreThoseOfThePlainQuantiser) {
  if (GetParam().layout == FfdCacheLayout::row_major) return;
  using Layout = FfdFragments<64, 2>;
  const DecodeProblem problem = problem_of(shape(1), {}, {300});
  Gpu gpu;
  CacheOnGpu cache(problem, gpu);
  const PlainDecode plain(problem);
  const FfdBlockBytes bytes = ffd_block_bytes(cache.shape());
  for (std::int64_t pair = 0; pair < problem.pairs(); ++pair)
    for (int b = 0; b < problem.full_blocks(pair); ++b) {
      const std::int64_t at = pair * problem.shape.max_blocks() + b;
      const auto record = gpu.download(static_cast<const std::uint8_t*>(cache.cache.view().records) + at * bytes.record,
                                       static_cast<std::size_t>(bytes.record));
      const auto residual =
          gpu.download(static_cast<const std::uint8_t*>(cache.cache.view().residual) + at * bytes.residual,
                       static_cast<std::size_t>(bytes.residual));
      float unit;
      std::memcpy(&unit, record.data(), 4);
      for (int d = 0; d < 64; ++d) {
        std::uint16_t bits;
        std::memcpy(&bits, record.data() + Layout::scale_at(d), 2);
        const float largest = float16_to_float(bits) * unit, s = std::max(largest / 1.5f, 1e-8f);
        const PlainFfdGroup& channel = plain.block(pair, b)[static_cast<std::size_t>(d)];
        for (int t = 0; t < kFfdBlock; ++t) {
          int word, bit;
          Layout::code_at(t, d, word, bit);
          std::uint32_t codes;
          std::memcpy(&codes, record.data() + Layout::kHeader + Layout::kScaleBytes + word * 4, 4);
          const float code = static_cast<float>(codes >> bit & 3);
          ASSERT_EQ((code - 1.5f) * s, static_cast<float>(channel.thumbnail[static_cast<std::size_t>(t)]));
          const std::uint8_t e4m3 = residual[static_cast<std::size_t>(Layout::residual_at(t, d))];
          const int exponent = e4m3 >> 3 & 15, mantissa = e4m3 & 7;
          const double size = exponent == 0 ? mantissa * 0x1p-9 : std::ldexp(8 + mantissa, exponent - 10);
          ASSERT_EQ(e4m3 & 128 ? -size : size, channel.residual[static_cast<std::size_t>(t)]);
        }
      }
    }
}

TEST_P(FfdDecode, ScanAgreesWithThePlainForm) {
  for (int sub_block : {16, 32, 64, 128}) {
    const DecodeProblem problem = problem_of(shape(3, 1100, 5), {.sub_block = sub_block}, {1000, 129, 60});
    Gpu gpu;
    CacheOnGpu cache(problem, gpu);
    const int group = problem.shape.group;
    const std::int64_t tokens = problem.shape.max_blocks() * kFfdBlock, parts = tokens / sub_block;
    auto* maxima = gpu.arena.take<float>(static_cast<std::size_t>(problem.pairs() * parts));
    auto* scores = gpu.arena.take<float>(static_cast<std::size_t>(problem.pairs() * tokens * group));
    cuda_ffd_scan(cache.cache, problem.options, {cache.q(), maxima, scores}, gpu.stream);
    const auto found = gpu.download(scores, static_cast<std::size_t>(problem.pairs() * tokens * group));
    const auto largest = gpu.download(maxima, static_cast<std::size_t>(problem.pairs() * parts));
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
      }
    }
  }
}

}  // namespace
}  // namespace attest::test
