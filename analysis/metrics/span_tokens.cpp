// Metrics of the span tokens that the query heads of a layer keep together, on the CPU.
#include "analysis/metrics/span_tokens.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/base/not_defined.h"

namespace attest {
namespace {

constexpr float kUndefined = static_cast<float>(kNaN);

}  // namespace

void set_span_bits(const SelectorRow& row, std::span<const int> settings, const SpanBits& bits, std::int64_t query,
                   int head, std::int64_t first) {
  std::uint32_t* token = bits.bits + bits.row(query, head) + first * bits.words;
  for (const std::uint32_t j : row.exact->span_tokens) {
    for (std::size_t i = row.levels[j]; i < settings.size(); ++i) {
      const std::uint32_t bit = std::uint32_t{1} << (settings[i] % kSettingsPerWord);
      // Heads share the words if bits.heads is 1.
      const std::atomic_ref<std::uint32_t> word(token[settings[i] / kSettingsPerWord]);
      if ((word.load(std::memory_order_relaxed) & bit) == 0) word.fetch_or(bit, std::memory_order_relaxed);
    }
    token += bits.words;
  }
}

void count_span_heads(const SpanBits& bits, std::int64_t query, int setting, const SpanTokenRange& seen,
                      std::span<float> heads) {
  std::ranges::fill(heads, kUndefined);
  const int word = setting / kSettingsPerWord, shift = setting % kSettingsPerWord;
  for (std::int64_t t = seen.begin; t < seen.end; ++t) {
    std::uint32_t count = 0;
    for (int h = 0; h < bits.heads; ++h) count += (bits.bits[bits.row(query, h) + t * bits.words + word] >> shift) & 1u;
    heads[static_cast<std::size_t>(t)] = static_cast<float>(count);
  }
}

void span_lost(std::span<const float> heads, std::span<float> out) {
  std::int64_t seen = 0, lost = 0;
  for (const float count : heads) {
    if (std::isnan(count)) continue;
    ++seen;
    lost += count == 0 ? 1 : 0;
  }
  out[0] = seen > 0 ? static_cast<float>(static_cast<double>(lost) / static_cast<double>(seen)) : kUndefined;
}

void span_token_heads(std::span<const float> heads, std::span<float> out) { std::ranges::copy(heads, out.begin()); }

}  // namespace attest
