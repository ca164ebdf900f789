// Words that experiments share: names for curves, lists of layers, how sure an interval is.
#pragma once

#include <set>
#include <string>

#include "analysis/statistics/bootstrap.h"
#include "experiments/paper/model_study.h"

namespace attest {

/// A label for csv cells and legends: control characters become spaces.
std::string display_name(const std::string& label);

/// A label as (part of) the name of a curve, without characters that gnuplot cannot select by.
std::string curve_name(const std::string& label);

/// The label of a selector in a legend; oracles are marked.
std::string legend_title(const PooledSelector& selector);

/// "layer 1", "layers 0 and 1", "layers 0-3 and 7".
std::string layers_in_words(const std::set<int>& layers);

/// "1 sample", "12 samples".
std::string counted(std::int64_t count, const std::string& noun);

/// Whether a bootstrap interval is drawn. Below five samples its coverage is far from the nominal one, and heads or
/// layers of one prompt are not independent: the samples themselves are drawn instead.
inline constexpr std::size_t kFewestSamplesOfABand = 5;
bool is_drawn(const Interval& interval);

/// What a figure says of its bands, or of the points in their place; empty for one sample.
std::string interval_note(const Interval& interval);

}  // namespace attest
