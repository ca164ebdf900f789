// The results of a study for one layer, as plain data: output of the layer studies, input of the results files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/metric_info.h"

namespace attest {

/// One metric of one layer, row-major float32; NaN means not defined or not computed.
struct MetricValues {
  std::string name;
  MetricAxes axes = MetricAxes::query_head;
  std::vector<float> values;
};

/// The results of one selector on one layer.
struct SelectorLayerResults {
  bool dense = false;  ///< the selector was exact in this layer (Selector::is_dense())
  std::vector<MetricValues> metrics;
};

/// XXH64 of a block of the dump's file (kFileBlock bytes), taken while the layer was read.
struct BlockHash {
  std::uint64_t block = 0;
  std::uint64_t hash = 0;
  bool operator==(const BlockHash&) const = default;
};

/// The result of one unit of work: (dump, sample, layer).
struct LayerResults {
  int dump = 0;
  std::string sample;
  int layer = 0;
  bool done = true;                             ///< false: left out by --skip-bad-layers
  std::vector<MetricValues> scores;             ///< metrics of the exact scores alone
  std::vector<SelectorLayerResults> selectors;  ///< in the order of Study::selectors
  std::vector<BlockHash> input_blocks{};  ///< hashes of parts of the dump, for the process that writes the results
  std::string computed_by{};              ///< process and machine, for messages
  /// One sentence that says why the layer cannot be studied; empty if it was. Not stored.
  std::string defect{};
};

}  // namespace attest
