// What an engine may have computed instead of what was expected.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analysis/audit/audit_input.h"
#include "analysis/audit/kv_storage.h"
#include "analysis/audit/row_attention.h"

namespace attest {

/// Attention that differs from the dump's in one respect.
struct Hypothesis {
  std::string kind;       ///< "cache", "mask", "window", "sinks", "softcap", "position", "values", "scale", "gqa"
  std::string text;       ///< "the sliding window of 16 tokens is not applied"
  std::string note = {};  ///< more about a number that was fitted
  KvStorages storages;
  ScoreTransform transform;
  bool sinks = true;          ///< those of the layer join the softmax
  bool heads_modulo = false;  ///< query head h reads KV head h mod Hkv instead of h / G
  std::int64_t value_shift = 0;
  int half_sum_threads = 0;  ///< values are added up in float16, by so many threads (half_sums.h); 0: they are not
  std::function<TokenRange(std::int64_t position)> tokens = {};                  ///< empty: as the dump says
  std::function<void(std::int64_t position, std::span<float> query)> turn = {};  ///< empty: as dumped
};

/// The attention that the dump describes, through `storages`.
Hypothesis plain_hypothesis(const AuditInput& input, const KvStorages& storages);

/// All hypotheses but those of other caches and of fitted windows and scales (cache_screen.h, fits.h), each with the
/// keys and values of `storages`.
std::vector<Hypothesis> structural_hypotheses(const AuditInput& input, const KvStorages& storages);

/// Windows and scales, also for fits.
Hypothesis window_hypothesis(const AuditInput& input, const KvStorages& storages, std::int64_t window,
                             const std::string& text);
Hypothesis scale_hypothesis(const AuditInput& input, const KvStorages& storages, double scale, const std::string& text);

/// What it predicts for rows of the layer, in their order.
std::vector<RowPrediction> predict(const AuditInput& input, const Hypothesis& hypothesis,
                                   std::span<const RowPlace> rows, const std::atomic<bool>* stop);

}  // namespace attest
