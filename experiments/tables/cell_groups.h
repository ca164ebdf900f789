// Splits the cells of samples into groups, one buffer of cells each.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "experiments/tables/results_table.h"

namespace attest {

/// The cells of each group that are not NaN, and the groups that have none but NaN.
std::map<GroupKey, std::vector<float>> split_cells(std::span<const SampleCells> samples, std::span<const Grouping> by);

/// The cells of a metric of the exact scores at the places of `like`: [like.size()], NaN where the results lack them.
std::vector<SampleCells> score_cells_at(std::span<const SampleCells> scores, std::span<const SampleCells> like);

/// `recall` where `span_mass`, cells of the same places, is at least kRetrievalMass; NaN elsewhere.
std::vector<SampleCells> retrieval_cells(std::span<const SampleCells> recall, std::span<const SampleCells> span_mass);

}  // namespace attest
