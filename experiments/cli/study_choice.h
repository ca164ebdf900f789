// Parses the arguments of --layers, --samples and --queries.
#pragma once

#include <string_view>

#include "analysis/study/study_plan.h"

namespace attest {

/// "0-31", "0,5,8-11", "8-" (from 8 on). Throws UsageError.
std::vector<std::pair<int, int>> parse_layers(std::string_view text);

/// "all", "last:4", or positions: "1000,2047". Throws UsageError.
QueryChoice parse_queries(std::string_view text);

/// "a,b": names separated by commas.
std::vector<std::string> parse_names(std::string_view text);

}  // namespace attest
