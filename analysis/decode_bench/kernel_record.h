// What a measurement of a decode kernel is asked to do, and what it found.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace attest {

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();  ///< null in JSON

/// Where a text may be null in JSON, an empty text is null.
struct KernelMachine {
  std::string gpu;  ///< "NVIDIA H200"
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::string driver, cuda_runtime;                                     ///< "580.65.06", "13.0"
  std::string torch;                                                    ///< "2.11.0"; may be null: no LibTorch
  double sm_clock_mhz = kNotMeasured, memory_clock_mhz = kNotMeasured;  ///< while kernels ran
  double copy_bytes_per_second = 0;  ///< within the device's memory; counts bytes read and bytes written
};

/// How strict the method was asked to be. `keep`: the share that its own setting was calibrated to.
struct KernelSetting {
  std::string kind = "none";  ///< "delta", "keep", "factor" or "none"
  double value = 0;           ///< 5 or 0.06; infinity: every delta keeps all
  bool operator==(const KernelSetting&) const = default;
};

struct KernelSpec {
  std::string method;    ///< "ffd", "sdpa_flash", ...: kKernelMethods
  std::string scan;      ///< "2-bit", "4-bit", "8-bit", "16-bit", or null
  std::string rule;      ///< "topdelta", "topk", "topp", "none", or null
  std::string launches;  ///< "fused", "dealt" (fused, by a deal of what the step keeps), "split", or null
  /// Of rule topk with kind `delta`: the budget is what topdelta keeps on average.
  KernelSetting setting;
  bool operator==(const KernelSpec&) const = default;
};

/// key_scan and exact_blocks are of older reports alone, which are still read.
inline const std::vector<std::string> kKernelMethods{"ffd",      "sdpa_flash",  "sdpa_cudnn", "skip_softmax",
                                                     "ffd_scan", "block_topk",  "token_topp", "kivi_scan",
                                                     "key_scan", "exact_blocks"};

/// Over query heads, against exact attention of the same q, k and v.
struct KernelFidelity {
  double recall_mean = kNotMeasured, recall_min = kNotMeasured;  ///< cosine of the outputs
  double lse_error_mean = kNotMeasured, lse_error_max = kNotMeasured;
};

/// What was compared before anything was timed.
struct KernelCheck {
  std::string against;  ///< "plain kernel in double precision, 32 rows"
  double largest_output_error = kNotMeasured, largest_lse_error = kNotMeasured;
  std::int64_t blocks_differing = 0, blocks = 0;  ///< kept by one of the two alone; of so many
};

struct KernelResult {
  KernelSetting setting;        ///< as asked; what it was calibrated to, where that is another
  double delta = kNotMeasured;  ///< that was used; null if there is none, and for infinity
  double keep_ratio = kNotMeasured, io_ratio = kNotMeasured;  ///< of the tokens; of the bytes of a dense 16-bit read
  double bytes = 0;                                           ///< that must move
  double floor_microseconds = 0;                              ///< bytes over the copy bandwidth
  std::vector<double> microseconds;                           ///< of a call, one per replay of the graph
  double median_microseconds = kNotMeasured;
  std::optional<KernelFidelity> fidelity;  ///< null: selection alone
  KernelCheck check;
};

}  // namespace attest
