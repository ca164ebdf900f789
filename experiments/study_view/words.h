// Words that experiments share: names for curves, lists of layers, how sure an interval is.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics/bootstrap.h"
#include "experiments/study_view/model_study.h"

namespace attest {

/// A label for csv cells and legends: control characters become spaces, what else is not shown as it is is escaped.
std::string display_name(const std::string& label);

/// The only curve of a heat map of heads.
inline constexpr const char* kMapCurve = "heads";

/// The name of a `kind` ("task") where `marker` ("all") stands for something else: "all" becomes "task all".
std::string apart_from(std::string_view marker, std::string_view kind, const std::string& name);

/// The name of a task; "no task" for that of samples without one.
std::string task_title(const std::string& task);

/// A label as (part of) the name of a curve, without characters that gnuplot cannot select by.
std::string curve_name(const std::string& label);

/// The label of a selector in a legend; oracles are marked.
std::string legend_title(const PooledSelector& selector);

/// "delta 5", "budget 50%"; empty for a selector without settings.
std::string setting_in_words(const StudySelector& group, std::size_t setting);

/// "ffd at delta 5"; the label alone of a selector without settings.
std::string named_setting(const StudySelector& group, std::size_t setting);

/// "layer 1", "layers 0 and 1", "layers 0-3 and 7".
std::string layers_in_words(const std::set<int>& layers);

/// "vllm 0.11.2, KV cache k=fp8_e4m3,v=fp8_e4m3", of a dump's attributes; what is not recorded is said.
std::string engine_in_words(const std::string& engine, const std::string& kv_cache);

/// "layer 5 head 7"
std::string head_in_words(int layer, int head);

/// A text from a file as part of a file's name: characters that a folder, a shell or LaTeX would interpret become '-'.
std::string slug(const std::string& text);

/// The first letter as a capital.
std::string capitalized(std::string text);

/// "6.42 %": three significant digits; "?" for NaN.
std::string percent_in_words(double share);

/// "12 cells", or "12 to 48 cells" where the counts, of which there is one at least, differ.
std::string cells_in_words(const std::vector<std::int64_t>& counts);

/// " Without layers 0 and 1, dense in one of the selectors."; empty if there are none.
std::string without_dense(const std::set<int>& dense);

/// Whether a bootstrap interval is drawn. Below kFewestClusters samples there is none, and heads or layers of one
/// prompt are not independent: the samples themselves are drawn instead.
bool is_drawn(const Interval& interval);

/// The note of a figure on its bands, or on the points in their place; empty for one sample.
std::string interval_note(const Interval& interval);

}  // namespace attest
