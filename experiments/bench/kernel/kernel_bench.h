// Runs attest bench kernel: every planned measurement on every layer, length and batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/decode_bench/kernel_session.h"
#include "experiments/bench/kernel/kernel_plan.h"
#include "experiments/bench/kernel/kernel_report.h"

namespace attest {

struct KernelBenchOptions {
  KernelPlanOptions plan;
  std::uint64_t seed = 0;
  /// The shape of generated inputs; a dump has its own.
  AttentionShape shape{.num_query_heads = 32, .num_kv_heads = 8, .head_dim = 128, .value_dim = 128};
  ElementType element_type = ElementType::float16;
  std::string dump;  ///< empty: generated inputs
  int threads = 1;
  std::vector<std::string> samples;         ///< of the dump; empty: the longest
  std::vector<std::pair<int, int>> layers;  ///< of the dump; empty: all
};

struct KernelBenchObserver {
  std::function<void(std::size_t done, std::size_t total)> progress = [](std::size_t, std::size_t) {};
  std::function<void(const std::string&)> notice = [](const std::string&) {};
};

/// `make_session` is called once the inputs have been found good. Fills all of the report but program, time, arguments
/// and torch. Throws what the session throws, and DeviceError if nothing could be measured.
KernelReport bench_kernels(const KernelBenchOptions& options,
                           const std::function<std::unique_ptr<KernelSession>()>& make_session,
                           const KernelBenchObserver& observer);

}  // namespace attest
