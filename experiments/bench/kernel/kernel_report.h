// The report of attest bench kernel: a record of one run on one machine, kept as JSON so that figures can be made
// again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/decode_bench/kernel_record.h"
#include "dumps/base/json.h"

namespace attest {

inline constexpr std::string_view kKernelBenchFormat = "attest-kernel-bench";
inline constexpr int kKernelBenchVersion = 1;

/// Whether a method is dense attention, with which the others are compared.
inline bool is_baseline(std::string_view method) { return method.starts_with("sdpa_"); }

struct KernelShape {
  int num_query_heads = 0, num_kv_heads = 0, head_dim = 0, value_dim = 0;
  std::string element_type;  ///< "float16" or "bfloat16"
};

struct KernelData {
  std::string source = "generated";  ///< or "dump", which has the rest
  std::string path, xxh64_of_1mib, model;
};

/// One method on one layer's inputs: what was measured, on what, and where it belongs. A text that is null in JSON is
/// empty here.
struct KernelMeasurement : KernelResult {
  std::vector<std::string> experiments;  ///< "kernel_latency", "selection_overhead", "quant_depth", "ablation"
  std::string method;                    ///< kKernelMethods
  std::int64_t length = 0;
  int batch = 1;
  std::optional<int> layer;  ///< null: generated
  std::string sample;        ///< or null
  bool tiled = false;        ///< a layer of a dump was repeated to reach `length`
  std::string scan;          ///< "2-bit", "4-bit", "8-bit", "16-bit", or null
  std::string rule;          ///< "topdelta", "topk", "topp", "none", or null
  std::string launches;      ///< "fused", "dealt", "split", or null
};

/// A method or case that was not measured, and why: a sentence.
struct KernelLeftOut {
  std::string method, reason;
};

struct KernelReport {
  std::string program_version, program_commit, created;
  KernelMachine machine;
  std::vector<std::string> arguments;  ///< of the command line, without the program's name
  std::uint64_t seed = 0;
  KernelShape shape;
  KernelData data;
  std::vector<KernelMeasurement> measurements;
  std::vector<KernelLeftOut> left_out;
};

inline const std::vector<std::string> kKernelExperiments{"kernel_latency", "selection_overhead", "quant_depth",
                                                         "ablation"};

Json json_of(const KernelReport& report);

/// The report in a file. Throws InputError, a sentence with the place, what was expected and what was found, if the
/// file is missing, larger than 64 MiB or not such a report.
KernelReport read_kernel_report(const std::string& path);

}  // namespace attest
