// NaN and infinity among the values of a layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "dumps/attention_layer.h"

namespace attest {

struct NonFiniteValue {
  char tensor = 'q';       ///< 'q', 'k' or 'v'
  int head = 0;            ///< query head of q, KV head of k and v
  std::int64_t token = 0;  ///< position; of q, the query's
  int channel = 0;
  bool is_nan = false;     ///< else an infinity
};

/// The first one in the order q, k, v; within each by storage.
std::optional<NonFiniteValue> find_non_finite(const AttentionLayer& layer);

/// "k of KV head 1 at token 37, channel 5, is NaN"
std::string describe(const NonFiniteValue& value);

}  // namespace attest
