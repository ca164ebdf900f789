// Metrics of the span tokens that the query heads of a layer keep together. Each head notes what it keeps as bits; when
// all heads are done, the bits of a token are counted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "analysis/metrics/rows.h"

namespace attest {

struct CudaSelectorRows;
struct CudaSpanTokens;
class CudaCells;

/// One bit per query, head, span token and setting (in the order given), set if the head keeps the token: [N, heads,
/// tokens, words] words of 32 settings. Setting a bit twice changes nothing, so that rows may be computed again.
struct SpanBits {
  std::uint32_t* bits = nullptr;
  int heads = 0;            ///< Hq, or 1: a bit then says whether any head keeps the token
  std::int64_t tokens = 0;  ///< T, of the union of the sample's spans
  int words = 0;            ///< per token; 0: the selector has no metric of span tokens

  std::size_t size(std::int64_t queries) const { return static_cast<std::size_t>(queries * heads * tokens * words); }
  /// Index of the first word of a query and query head.
  std::int64_t row(std::int64_t query, int head) const {
    return (query * heads + std::min(head, heads - 1)) * tokens * words;
  }
};

inline constexpr int kSettingsPerWord = 32;

/// The span tokens that a query sees, as indices into the union: [begin, end).
struct SpanTokenRange {
  std::int64_t begin = 0, end = 0;
};

/// Sets the bits of one row. `settings`: the place in the results of each ascending setting. `first`: index in the
/// union of the first span token that the query sees. Several threads may set bits of one query.
void set_span_bits(const SelectorRow& row, std::span<const int> settings, const SpanBits& bits, std::int64_t query,
                   int head, std::int64_t first);

/// [T] number of heads that keep each token at one setting; NaN where the query does not see the token.
void count_span_heads(const SpanBits& bits, std::int64_t query, int setting, const SpanTokenRange& seen,
                      std::span<float> heads);

// The metrics, from the heads that keep each token.

/// Share of the tokens seen that no head keeps; NaN if none is seen.
void span_lost(std::span<const float> heads, std::span<float> out);
void span_token_heads(std::span<const float> heads, std::span<float> out);

/// Sets the bits of a chunk's rows.
void cuda_span_bits(const CudaSelectorRows& rows, const CudaCells& cells);
void cuda_span_lost(const CudaSpanTokens& tokens);
void cuda_span_token_heads(const CudaSpanTokens& tokens);

}  // namespace attest
