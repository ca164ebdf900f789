// Attention of single rows as a hypothesis has them: any range of tokens, any query, any storage of keys and values.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/audit/kv_storage.h"
#include "analysis/audit/rounding_bound.h"
#include "kernels/base/kv_head.h"

namespace attest {

/// Tokens [begin, end) that a row attends to, at least one.
struct TokenRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const TokenRange&) const = default;
};

struct RowModel {
  std::vector<float> query;  ///< [D]
  TokenRange tokens;
  std::optional<double> sink;
};

struct RowPrediction {
  std::vector<double> output;  ///< [Dv]
  double lse = 0;
  RowRounding rounding;
};

/// o = sum_j exp(s_j - LSE) v_(j + value_shift), LSE = log(exp(sink) + sum_j exp(s_j)), s = transform(q.k), in double.
/// Beyond the ends of the layer the nearest value is taken. All rows attend to the one KV head.
std::vector<RowPrediction> attend_rows(const StoredHead& head, std::span<const RowModel> rows,
                                       const ScoreTransform& transform, std::int64_t value_shift,
                                       const std::atomic<bool>* stop);

}  // namespace attest
