// Which measurements attest bench kernel makes, and for which experiments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/decode_bench/kernel_record.h"

namespace attest {

struct KernelPlanOptions {
  std::vector<std::int64_t> lengths;
  std::vector<int> batches;
  std::vector<double> deltas;            ///< at least one
  std::vector<double> keeps;             ///< shares; 1: everything
  std::vector<std::string> experiments;  ///< of kKernelExperiments
};

struct PlannedKernel {
  KernelSpec spec;
  std::vector<std::string> experiments;
  bool dense = false;  ///< takes the same time on every layer, so that one is enough
};

/// The measurements of one layer at one length and batch; a measurement of several experiments is made once. Those of
/// quant_depth, selection_overhead and ablation are made at focus_length() and the first batch.
std::vector<PlannedKernel> planned_kernels(const KernelPlanOptions& options, std::int64_t length, int batch);

/// 16K, where the paper compares depths, if it is among the lengths; else the longest.
std::int64_t focus_length(const KernelPlanOptions& options);

/// Lengths as typed: "4K,16384", or "4K..256K", which doubles. Throws UsageError.
std::vector<std::int64_t> parse_lengths(std::string_view text, std::string_view option = "--lengths");

}  // namespace attest
