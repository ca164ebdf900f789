// Merges the evidence spans of a sample.
#include "dumps/token_spans.h"

#include <algorithm>

namespace attest {

std::vector<TokenSpan> merged_spans(std::span<const TokenSpan> spans) {
  std::vector<TokenSpan> ascending;
  for (const TokenSpan& span : spans)
    if (span.begin < span.end) ascending.push_back(span);
  std::ranges::sort(ascending, {}, &TokenSpan::begin);
  std::vector<TokenSpan> merged;
  for (const TokenSpan& span : ascending) {
    if (!merged.empty() && span.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, span.end);
    else
      merged.push_back(span);
  }
  return merged;
}

std::vector<std::int64_t> span_tokens(std::span<const TokenSpan> spans) {
  std::vector<std::int64_t> tokens;
  for (const TokenSpan& span : merged_spans(spans))
    for (std::int64_t token = span.begin; token < span.end; ++token) tokens.push_back(token);
  return tokens;
}

}  // namespace attest
