// Some units of a study as one file: what another program computes elsewhere, without a folder that is shared, and
// brings back (experiments/python/attest/cluster).
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "analysis/results/layer_results.h"
#include "analysis/results/partial_results.h"
#include "analysis/run/prepared_study.h"
#include "analysis/run/run_study.h"

namespace attest {

/// Computes the chosen units and writes them to options.chunk.file, in the order in which they are finished.
RunReport compute_chunk(PreparedStudy& run, const std::atomic<bool>& stop, const StudyObserver& observer);

/// Adds the units of a chunk to the folder of the study, but for those that it has already, and hands all of them to
/// `taken`. Throws InputError if the file is damaged, or was computed from inputs of other content; UsageError if it is
/// of another study.
void take_chunk(const std::string& path, const PreparedStudy& run, const PartialResults& partial,
                const std::function<void(const UnitKey&, const LayerResults&)>& taken, const std::atomic<bool>& stop);

/// Places in the plan of the units that have no file in the folder.
std::vector<std::size_t> missing_units(const PreparedStudy& run, const PartialResults& partial);

}  // namespace attest
