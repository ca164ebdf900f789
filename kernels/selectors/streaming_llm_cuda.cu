// streaming_llm on the device. Method and sources: streaming_llm.cpp.

#include "kernels/device/fill_rows.cuh"
#include "kernels/selectors/cuda_chunk.h"
#include "kernels/selectors/streaming_llm_options.h"

namespace attest {
namespace {

/// Entry level of a token. begins [queries, S]: first token of the window of each setting, descending.
struct WindowLevel {
  int sink;
  QuerySettings<int> begins;
  __device__ Level operator()(int row, int token) const {
    const int* own = begins.of_row(row);
    // Binary search for the first setting whose window begins at or before the token.
    int level = 0, end = token < sink ? 0 : begins.count;
    while (level < end) {
      const int middle = (level + end) / 2;
      if (token < own[middle])
        level = middle + 1;
      else
        end = middle;
    }
    return static_cast<Level>(level);
  }
};

class CudaStreamingLlm final : public CudaSelector, StreamingLlmOptions {
 public:
  explicit CudaStreamingLlm(const StreamingLlmOptions& options) : StreamingLlmOptions(options) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const auto begins = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
      return static_cast<int>(window_begin(budget, visible));
    });
    auto* levels = chunk.take_levels();
    fill_rows(chunk.rows, WindowLevel{sink_, begins}, levels, chunk.stream);
    out.levels = levels;
    out.io = group_costs(chunk, [&](std::int64_t) {
      return IoCost{.fixed = 0, .per_kept_token = chunk.kv.shape().token_bytes(), .free_tokens = 0};
    });
  }
};

}  // namespace

std::shared_ptr<const CudaSelector> make_cuda_streaming_llm(const StreamingLlmOptions& options) {
  return std::make_shared<CudaStreamingLlm>(options);
}

}  // namespace attest
