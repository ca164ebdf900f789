// The formats of a comparison: text for a terminal, Markdown, csv, JSON.
#pragma once

#include <string>

#include "dumps/base/json.h"
#include "experiments/compare/comparison.h"

namespace attest {

std::string comparison_text(const Comparison& comparison);
std::string comparison_markdown(const Comparison& comparison);

/// A line for each row, with empty `layer` and `head`, then a line for each layer and head of each row's metric.
std::string comparison_csv(const Comparison& comparison);

/// Fields: experiments/manual/compare.md.
Json comparison_json(const Comparison& comparison);

}  // namespace attest
