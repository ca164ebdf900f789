// Runs attest bench kernel: every planned measurement on every layer, length and batch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
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

struct KernelBenchRun {
  KernelReport report;  ///< all of it but program, time, arguments and torch
  /// DeviceError or Interrupted, which ended the run before all was measured: its rest is left out. Null if none did.
  std::exception_ptr ended_by;
};

/// `make_session` is called once the inputs have been found good. `interrupted` is read before each measurement. Throws
/// what the session throws but DeviceError after the first measurement, and DeviceError if nothing could be measured.
KernelBenchRun bench_kernels(const KernelBenchOptions& options,
                             const std::function<std::unique_ptr<KernelSession>()>& make_session,
                             const KernelBenchObserver& observer, const std::atomic<bool>& interrupted);

}  // namespace attest
