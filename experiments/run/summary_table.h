// The summary of a study, as a table for people and as JSON for programs.
#pragma once

#include <string>

#include "analysis/statistics/summary.h"
#include "dumps/base/json.h"

namespace attest {

/// An aligned table, followed by a note on what was averaged.
std::string summary_table(const Summary& summary);

/// {rows: [...], dense_layers, with_dense_layers, dropped_nothing, scan_not_counted}; null where a value is not
/// defined.
Json summary_json(const Summary& summary);

}  // namespace attest
