// streaming_llm on the device; the method and its source stand in streaming_llm.cpp.
#include <algorithm>

#include "kernels/device/cuda_check.h"
#include "kernels/selectors/cuda_registry.h"

namespace attest {
namespace {

constexpr int kThreads = 256;

/// begins [queries, S]: first token of the window of each setting, descending.
__global__ void window_levels_kernel(DeviceRows rows, int sink, QuerySettings<int> begins, Level* levels) {
  const int token = blockIdx.x * kThreads + static_cast<int>(threadIdx.x), row = blockIdx.y;
  if (token >= rows.visible[row]) return;
  const int* own = begins.values + static_cast<std::int64_t>(rows.query[row]) * begins.count;
  int level = 0;
  if (token >= sink)
    while (level < begins.count && token < own[level]) ++level;
  levels[row * rows.stride + token] = static_cast<Level>(level);
}

class CudaStreamingLlm final : public CudaSelector {
 public:
  explicit CudaStreamingLlm(OptionReader& reader) : sink_(reader.integer("sink", 4, 0, 1 << 30)) {}

  void select(const CudaChunk& chunk, std::span<const AscendingGrid> grids, CudaSelection& out) const override {
    const auto begins = query_settings<int>(chunk, grids, [&](double budget, std::int64_t visible) {
      const double window = std::max(1.0, budget - sink_);
      return static_cast<int>(std::max(static_cast<double>(std::min<std::int64_t>(sink_, visible)), static_cast<double>(visible) - window));
    });
    Level* levels = chunk.take_levels();
    const dim3 grid((chunk.rows.max_length + kThreads - 1) / kThreads, chunk.rows.num_rows);
    window_levels_kernel<<<grid, kThreads, 0, chunk.stream>>>(chunk.rows, sink_, begins, levels);
    ATTEST_CUDA_LAUNCHED(window_levels_kernel);
    out.levels = levels;
    out.io = group_costs(chunk, [&](std::int64_t) { return IoCost{.fixed = 0, .per_kept_token = dense_token_bytes(chunk.kv), .free_tokens = 0}; });
  }

 private:
  int sink_;
};

}  // namespace

std::unique_ptr<CudaSelector> make_cuda_streaming_llm(OptionReader& reader) { return std::make_unique<CudaStreamingLlm>(reader); }

}  // namespace attest
