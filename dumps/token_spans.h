// The union of a sample's evidence spans, which may overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// The union as disjoint ascending ranges. Empty ranges are left out.
std::vector<TokenSpan> merged_spans(std::span<const TokenSpan> spans);

/// Positions of the tokens of the union, ascending.
std::vector<std::int64_t> span_tokens(std::span<const TokenSpan> spans);

}  // namespace attest
