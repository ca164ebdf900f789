// Every pair of a storage of keys and one of values, on a few rows, in one pass over the tokens.
#pragma once

#include <span>
#include <vector>

#include "analysis/audit/audit_input.h"
#include "analysis/audit/kv_storage.h"

namespace attest {

/// How well the rows fit a pair: keys[k] with values[v].
struct StoragePair {
  std::size_t keys = 0, values = 0;
  std::vector<RowFit> fits;  ///< [rows]
};

/// The pairs whose formats could be those of one engine: two of llama.cpp rotate alike. `rows` are of one KV head;
/// `known` [rows] is what the dump's attention predicts for them, and lends its bound.
std::vector<StoragePair> screen_storages(const AuditInput& input, std::span<const KvStorage> keys,
                                         std::span<const KvStorage> values, std::span<const RowPlace> rows,
                                         std::span<const RowPrediction> known, const RoundingBound& bound,
                                         const std::atomic<bool>* stop);

}  // namespace attest
