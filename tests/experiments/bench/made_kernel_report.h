// A kernel report with made numbers.
#pragma once

#include "experiments/bench/kernel_report.h"

namespace attest {

inline KernelReport made_kernel_report() {
  KernelReport report;
  report.program_version = "0.1.0";
  report.program_commit = "0123456789ab";
  report.created = "2026-11-22T17:00:00Z";
  report.machine = {.gpu = "NVIDIA H200",
                    .multiprocessors = 132,
                    .memory_bytes = 150'000'000'000,
                    .driver = "580.65.06",
                    .cuda_runtime = "13.0",
                    .torch = "2.11.0",
                    .sm_clock_mhz = 1980,
                    .memory_clock_mhz = kNotMeasured,
                    .copy_bytes_per_second = 4e12};
  report.arguments = {"bench", "kernel", "--lengths", "32K"};
  report.seed = 18446744073709551615u;
  report.shape = {
      .num_query_heads = 32, .num_kv_heads = 8, .head_dim = 128, .value_dim = 128, .element_type = "float16"};
  report.data = {.source = "dump", .path = "d.h5", .xxh64_of_1mib = "0123456789abcdef", .model = "tiny"};
  const auto measured = [](KernelMeasurement m, double median) {
    m.experiments = {"kernel_latency"};
    m.length = 32768;
    m.microseconds = {median - 1, median, median + 2};
    m.median_microseconds = median;
    m.check = {.against = "plain kernel",
               .largest_output_error = 3e-4,
               .largest_lse_error = 1e-5,
               .blocks_differing = 1,
               .blocks = 2048};
    return m;
  };
  for (const int layer : {3, 5}) {
    KernelMeasurement ffd{.method = "ffd",
                          .layer = layer,
                          .sample = "s",
                          .tiled = true,
                          .scan = "2-bit",
                          .rule = "topdelta",
                          .launches = "fused",
                          .setting = {.kind = "delta", .value = 5},
                          .delta = 5,
                          .keep_ratio = layer == 3 ? 0.06 : 0.1,
                          .io_ratio = layer == 3 ? 0.11 : 0.14,
                          .bytes = 1.4e7,
                          .floor_microseconds = 3.5};
    ffd.fidelity = {.recall_mean = 0.999, .recall_min = -0.5, .lse_error_mean = 1e-3, .lse_error_max = 1e-2};
    report.measurements.push_back(measured(ffd, layer == 3 ? 10 : 14));
    KernelMeasurement flash{.method = "sdpa_flash",
                            .layer = layer,
                            .sample = "s",
                            .tiled = true,
                            .scan = "16-bit",
                            .rule = "none",
                            .keep_ratio = 1,
                            .io_ratio = 1,
                            .bytes = 1.3e8,
                            .floor_microseconds = 33};
    report.measurements.push_back(measured(flash, 60));
  }
  KernelMeasurement scan{.method = "kivi_scan",
                         .scan = "2-bit",
                         .rule = "none",
                         .keep_ratio = 1,
                         .io_ratio = 0.1,
                         .bytes = 1e7,
                         .floor_microseconds = 3};
  report.measurements.push_back(measured(scan, 8));
  report.left_out.push_back({.method = "sdpa_cudnn", .reason = "this LibTorch has no cuDNN"});
  return report;
}

}  // namespace attest
