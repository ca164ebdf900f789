// Span tokens that the heads of a layer keep together: the device against plain counts.
#include <gtest/gtest.h>

#include "analysis/metrics/span_tokens.h"
#include "tests/analysis/metrics/device_selection.h"
#include "tests/kernels/device_cases.h"

namespace attest::test {
namespace {

// At the first tokens, in the middle, and past the end of most layers.
const std::vector<int2> kSpans{{0, 2}, {100, 140}, {4000, 4001}};
constexpr std::int64_t kTokens = 43;

/// heads_of[query][setting][token]: number of heads that keep it; NaN if the query does not see it.
using Counts = std::vector<std::vector<std::vector<float>>>;

Counts plain_counts(const DeviceSelection& of) {
  const DeviceChunk& on = of.on;
  const auto settings = static_cast<std::size_t>(of.settings);
  Counts counts(static_cast<std::size_t>(on.chunk.num_queries),
                {settings, std::vector<float>(kTokens, std::numeric_limits<float>::quiet_NaN())});
  for (std::size_t r = 0; r < on.scores.size(); ++r) {
    const auto query = static_cast<std::size_t>(on.on.query[r]);
    const int first_key = on.on.origins[static_cast<std::size_t>(on.on.origin[r])].first_key;
    for (std::size_t i = 0; i < settings; ++i) {
      const Kept kept = of.kept(r, static_cast<int>(i));
      std::vector<float>& row = counts[query][static_cast<std::size_t>(of.place_of[query * settings + i])];
      std::size_t token = 0;
      for (const int2& span : kSpans)
        for (int t = span.x; t < span.y; ++t, ++token) {
          const int key = t - first_key;
          if (key < 0 || key >= static_cast<int>(kept.size())) continue;
          row[token] =
              (std::isnan(row[token]) ? 0 : row[token]) + static_cast<float>(kept[static_cast<std::size_t>(key)]);
        }
    }
  }
  return counts;
}

std::vector<SpanTokenRange> seen_of(const Counts& counts) {
  std::vector<SpanTokenRange> seen;
  for (const auto& query : counts) {
    SpanTokenRange range{kTokens, 0};
    for (std::int64_t t = 0; t < kTokens; ++t)
      if (!std::isnan(query[0][static_cast<std::size_t>(t)])) range = {std::min(range.begin, t), t + 1};
    seen.push_back(range.end == 0 ? SpanTokenRange{} : range);
  }
  return seen;
}

/// `by_head` false: one bit for all heads, as for spans of many tokens.
void expect_span_tokens(const Case& c, int settings, bool leveled, bool by_head) {
  DeviceChunk on(c);
  DeviceSelection of(on, settings, leveled);
  of.exact.spans = {on.gpu.upload(kSpans), static_cast<int>(kSpans.size())};
  const Counts expected = plain_counts(of);
  const auto queries = static_cast<std::size_t>(on.chunk.num_queries), count = static_cast<std::size_t>(settings);
  SpanBits bits{.heads = by_head ? on.on.layer.shape.num_query_heads : 1,
                .tokens = kTokens,
                .words = (settings + kSettingsPerWord - 1) / kSettingsPerWord};
  const std::size_t words = bits.size(on.chunk.num_queries);
  bits.bits = on.gpu.arena.take<std::uint32_t>(words);
  ATTEST_CUDA(cudaMemsetAsync(bits.bits, 0, words * sizeof(std::uint32_t), on.gpu.stream));
  const CudaCells cells({}, bits);
  for (int again = 0; again < 2; ++again) cuda_span_bits(of.rows, cells);  // setting bits again changes nothing
  const std::vector<float> undefined(queries * count * kTokens, std::numeric_limits<float>::quiet_NaN());
  float *lost = on.gpu.arena.take<float>(queries * count), *heads = on.gpu.arena.take<float>(undefined.size());
  ATTEST_CUDA(cudaMemcpyAsync(heads, undefined.data(), undefined.size() * sizeof(float), cudaMemcpyHostToDevice,
                              on.gpu.stream));
  CudaSpanTokens tokens{.bits = bits,
                        .seen = on.gpu.upload(seen_of(expected)),
                        .num_queries = static_cast<int>(queries),
                        .num_settings = settings,
                        .cells = lost,
                        .stream = on.gpu.stream};
  cuda_span_lost(tokens);
  tokens.cells = heads;
  cuda_span_token_heads(tokens);
  const std::vector<float> found_lost = on.gpu.download(lost, queries * count),
                           found_heads = on.gpu.download(heads, undefined.size());
  for (std::size_t n = 0; n < queries; ++n)
    for (std::size_t i = 0; i < count; ++i) {
      double seen = 0, none = 0;
      for (std::size_t t = 0; t < kTokens; ++t) {
        const float want = expected[n][i][t], have = found_heads[(n * count + i) * kTokens + t];
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(have)) << "query " << n << ", setting " << i << ", token " << t;
          continue;
        }
        EXPECT_EQ(have, by_head ? want : std::min(want, 1.0f)) << "query " << n << ", setting " << i << ", token " << t;
        seen += 1;
        none += want == 0;
      }
      const float share = found_lost[n * count + i];
      if (seen == 0) {
        EXPECT_TRUE(std::isnan(share)) << "query " << n;
      } else {
        EXPECT_EQ(share, static_cast<float>(none / seen)) << "query " << n << ", setting " << i;
      }
    }
}

class SpanTokensCuda : public OnGpuWith<Case> {};

TEST_P(SpanTokensCuda, OfFewSettings) { expect_span_tokens(GetParam(), 4, true, true); }
TEST_P(SpanTokensCuda, OfMoreSettingsThanAWordHas) { expect_span_tokens(GetParam(), 40, true, true); }
TEST_P(SpanTokensCuda, OfASettingThatKeepsAll) { expect_span_tokens(GetParam(), 2, false, true); }
TEST_P(SpanTokensCuda, OfAllHeadsInOneBit) { expect_span_tokens(GetParam(), 40, true, false); }

INSTANTIATE_TEST_SUITE_P(Cases, SpanTokensCuda, testing::ValuesIn(device_cases()), name_of_case);

}  // namespace
}  // namespace attest::test
