// streaming_llm: keeps the first `sink` tokens and the last max(1, budget - sink) tokens. No estimate.
// Source: StreamingLLM, section 3 (attention sinks and a window of recent tokens); mit-han-lab/streaming-llm
// streaming_llm/kv_cache.py.
// Bytes per KV head: kept * 2(D + Dv).
#include <algorithm>

#include "kernels/selectors/registry.h"
#include "kernels/selectors/streaming_llm_options.h"

namespace attest {
namespace {

class StreamingLlm final : public SelectorWith<StreamingLlmOptions, make_cuda_streaming_llm> {
 public:
  explicit StreamingLlm(OptionReader& reader) : SelectorWith(reader) { finish(reader, 0); }

  SettingKind setting_kind() const override { return SettingKind::budget; }
  bool has_estimate() const override { return false; }
  std::string_view short_context(double budget, std::int64_t visible) const override {
    return sink_ + window(budget) >= static_cast<double>(visible) ? kKeepsEveryKey : std::string_view{};
  }

  void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    for (int n = 0; n < head.num_queries; ++n) {
      const auto query = static_cast<std::size_t>(n);
      const std::int64_t visible = head.visible[query], sinks = sink(visible);
      Level* first = out.levels.row(n * head.group);
      // A token's level is the smallest window that contains it. Windows grow with the level, so fill from the end.
      std::int64_t end = visible;
      Level level = 0;
      for (double budget : grids[query].values) {
        const std::int64_t begin = window_begin(budget, visible);
        std::fill(first + std::min(begin, end), first + end, level++);
        end = std::min(begin, end);
      }
      std::fill(first + std::min(sinks, end), first + end, level);
      std::fill(first, first + sinks, Level{0});
      for (int h = 1; h < head.group; ++h) std::copy_n(first, visible, out.levels.row(n * head.group + h));
      out.io[query] = {.fixed = 0, .per_kept_token = head.shape().token_bytes(), .free_tokens = 0};
    }
  }
};

}  // namespace

extern const SelectorInfo streaming_llm_info;
const SelectorInfo streaming_llm_info{
    .name = "streaming_llm",
    .summary = "attention sinks and a window of recent tokens",
    .io_bytes = "kept 2(D+Dv)",
    .source = "StreamingLLM, section 3; mit-han-lab/streaming-llm streaming_llm/kv_cache.py",
    .studied_by_default = true,
    .make = make_from_options<StreamingLlm>};

}  // namespace attest
