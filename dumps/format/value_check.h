// Looks at every value of a layer: NaN, infinities, heads that are all zero, and the range; and at estimates.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// What is wrong with one head of a tensor.
struct HeadFinding {
  int head = 0;  ///< query head for q, KV head for k and v
  std::int64_t num_nan = 0;
  std::int64_t num_infinite = 0;
  std::int64_t first_token =
      -1;  ///< the first one with a NaN or an infinity; -1: none. For q it is the query's position
  bool all_zero = false;

  bool not_finite() const { return num_nan + num_infinite > 0; }
  bool operator==(const HeadFinding&) const = default;
};

struct TensorCheck {
  /// Of the finite values; NaN when there is none.
  float minimum = std::numeric_limits<float>::quiet_NaN();
  float maximum = std::numeric_limits<float>::quiet_NaN();
  std::vector<HeadFinding> findings;  ///< by head, those with something to say only
};

struct LayerCheck {
  int layer = 0;
  TensorCheck q, k, v;

  std::array<std::pair<const char*, const TensorCheck*>, 3> tensors() const {
    return {{{"q", &q}, {"k", &k}, {"v", &v}}};
  }
  /// The layer can be studied.
  bool finite() const;
};

LayerCheck check_values(const AttentionLayer& layer);

/// "layer 3, k, head 1: NaN, first at token 17" for the first head that is not finite; empty when all are.
std::string first_bad_value(const LayerCheck& check);

/// What is wrong with the layer's estimates: the first NaN or +inf that a query looks at, among the entries of the keys
/// that it sees. "own.h5: sample 's', layer 3, 'scores', query at 900, head 1: NaN at token 17"; empty where there is
/// none.
std::string first_bad_estimate(const AttentionLayer& layer, const std::string& sample);

}  // namespace attest
