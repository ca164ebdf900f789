// Options of streaming_llm and values derived from them, shared by the CPU and CUDA code. Method and sources:
// streaming_llm.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"

namespace attest {

class StreamingLlmOptions {
 protected:
  explicit StreamingLlmOptions(OptionReader& reader)
      : sink_(reader.integer("sink", 4, 0, 1 << 30, {"kept at the start", "tokens"})) {}

  double window(double budget) const { return std::max(1.0, budget - sink_); }
  std::int64_t sink(std::int64_t visible) const { return std::min<std::int64_t>(sink_, visible); }
  /// First token of the window. The window does not overlap the sink.
  std::int64_t window_begin(double budget, std::int64_t visible) const {
    return static_cast<std::int64_t>(
        std::max(static_cast<double>(sink(visible)), static_cast<double>(visible) - window(budget)));
  }

  int sink_;
};

/// Defined in streaming_llm_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_streaming_llm(const StreamingLlmOptions& options);

}  // namespace attest
