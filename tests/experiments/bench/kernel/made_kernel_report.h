// A kernel report with made numbers.
#pragma once

#include "experiments/bench/kernel/kernel_report.h"

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
  const auto add = [&](KernelMeasurement m, double median) {
    m.experiments = {"kernel_latency"};
    m.length = 32768;
    m.microseconds = {median - 1, median, median + 2};
    m.median_microseconds = median;
    m.check = {.against = "plain kernel",
               .largest_output_error = 3e-4,
               .largest_lse_error = 1e-5,
               .blocks_differing = 1,
               .blocks = 2048};
    report.measurements.push_back(std::move(m));
  };
  for (const int layer : {3, 5}) {
    KernelMeasurement ffd;
    ffd.method = "ffd";
    ffd.layer = layer;
    ffd.sample = "s";
    ffd.tiled = true;
    ffd.scan = "2-bit";
    ffd.rule = "topdelta";
    ffd.launches = "fused";
    ffd.setting = {.kind = "delta", .value = 5};
    ffd.delta = 5;
    ffd.keep_ratio = layer == 3 ? 0.06 : 0.1;
    ffd.io_ratio = layer == 3 ? 0.11 : 0.14;
    ffd.bytes = 1.4e7;
    ffd.floor_microseconds = 3.5;
    ffd.fidelity = {.recall_mean = 0.999, .recall_min = -0.5, .lse_error_mean = 1e-3, .lse_error_max = 1e-2};
    add(ffd, layer == 3 ? 10 : 14);
    KernelMeasurement flash;
    flash.method = "sdpa_flash";
    flash.layer = layer;
    flash.sample = "s";
    flash.tiled = true;
    flash.scan = "16-bit";
    flash.rule = "none";
    flash.keep_ratio = flash.io_ratio = 1;
    flash.bytes = 1.3e8;
    flash.floor_microseconds = 33;
    flash.fidelity = KernelFidelity{};
    add(flash, 60);
  }
  KernelMeasurement scan;
  scan.method = "kivi_scan";
  scan.scan = "2-bit";
  scan.rule = "none";
  scan.keep_ratio = 1;
  scan.io_ratio = 0.1;
  scan.bytes = 1e7;
  scan.floor_microseconds = 3;
  add(scan, 8);
  report.left_out.push_back({.method = "sdpa_cudnn", .reason = "this LibTorch has no cuDNN"});
  return report;
}

}  // namespace attest
