// Measurements of decode kernels on one GPU: inputs of one layer, and methods that are checked and timed on them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "analysis/decode_bench/kernel_record.h"
#include "analysis/layer/device.h"
#include "dumps/attention_layer.h"
#include "dumps/base/error.h"

namespace attest {

/// Inputs of a decode step: one query of each of `batch` sequences of `length` keys.
struct KernelInputs {
  AttentionShape shape;
  ElementType element_type = ElementType::float16;  ///< float16 or bfloat16
  std::int64_t length = 0;
  int batch = 1;
};

/// Thrown when a measurement cannot be made here; what() is the reason, for the report.
struct NotMeasurable : Error {
  using Error::Error;
};

struct KernelTimingOptions {
  int repeats = 25;     ///< timed replays of a graph
  int sub_block = 128;  ///< tokens that FFD keeps or drops together: 16, 32, 64 or 128
};

class KernelSession {
 public:
  virtual ~KernelSession() = default;

  /// Clocks are those of the measurements so far. Without `torch`.
  virtual KernelMachine machine() const = 0;

  /// Random inputs (decode_inputs_cuda.h). Throws NotMeasurable if they do not fit into the device's memory.
  virtual void generate(const KernelInputs& inputs, std::uint64_t seed) = 0;

  /// Those of a layer with one query, for every sequence: the keys that the query sees, cut or repeated to `length`
  /// (tiling.h).
  virtual void load(const KernelInputs& inputs, const AttentionLayer& layer) = 0;

  /// Checks the method's results, then times it. Throws NotMeasurable; Error if the results are wrong.
  virtual KernelResult measure(const KernelSpec& spec) = 0;
};

/// Throws DeviceError. Defined in a build with CUDA.
std::unique_ptr<KernelSession> make_cuda_kernel_session(const Device& device, const KernelTimingOptions& options);

}  // namespace attest
