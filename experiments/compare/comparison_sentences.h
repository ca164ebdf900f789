// What a comparison says in sentences: what was compared, what was not, how it was tested, what came out.
#pragma once

#include <string>
#include <vector>

#include "experiments/compare/comparison.h"

namespace attest {

/// "recall.min"; "recall" for the mean.
std::string printed_name(const MetricStatistic& metric);

/// "recall.min of ffd at delta 5".
std::string row_name(const ComparedRow& row);

/// A value of the row in its printed unit (per cent for ratios), and a difference, with its sign.
std::string value_text(double value, const MetricStatistic& metric);
std::string difference_text(double difference, const MetricStatistic& metric);
/// "%", "nats", "".
std::string_view printed_unit(const MetricStatistic& metric);

/// "+0.1 to +0.3"; a dash if nothing bounds it.
std::string interval_text(const ComparedRow& row);

/// First whether all is equal, then what was compared, and what differs or is left out.
std::vector<std::string> header_sentences(const Comparison& comparison);

/// How the rows were tested.
std::string method_sentence(const Comparison& comparison);

/// The outcome.
std::string summary_sentence(const Comparison& comparison);

}  // namespace attest
