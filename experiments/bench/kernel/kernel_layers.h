// The layers of a dump on which kernels are measured.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dumps/format/dump_reader.h"
#include "experiments/bench/kernel/kernel_bench.h"

namespace attest {

struct BenchedLayer {
  std::size_t sample = 0;  ///< in DumpInfo::samples
  std::size_t query = 0;   ///< its last one
  int layer = 0;
};

struct BenchedLayers {
  std::vector<BenchedLayer> layers;
  ElementType element_type = ElementType::float16;  ///< of all of them
  std::vector<KernelLeftOut> left_out;              ///< layers whose attention no decode kernel here computes
};

/// Throws UsageError for samples and layers that are not there, InputError if no layer is left.
BenchedLayers benched_layers(const DumpReader& dump, const KernelBenchOptions& options);

/// Reads one of the layers, with its last query alone. Throws InputError if it has NaN or Inf.
void read_benched_layer(const DumpReader& dump, const BenchedLayer& which, int threads, AttentionLayer& layer);

}  // namespace attest
