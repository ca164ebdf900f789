// Checks every value of a layer: fast before a study, or in full (NaN, infinities, all-zero heads, range); estimates,
// too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// Whether no value is NaN or infinite, at the speed of memory. `values` holds whole elements of `type`.
bool all_finite(ElementType type, std::span<const std::byte> values);

/// What is wrong with one head of a tensor.
struct HeadFinding {
  int head = 0;  ///< query head for q, KV head for k and v
  std::int64_t num_nan = 0;
  std::int64_t num_infinite = 0;
  /// First token with a NaN or an infinity (for q: the query's position); -1: none.
  std::int64_t first_token = -1;
  bool all_zero = false;

  bool not_finite() const { return num_nan + num_infinite > 0; }
  bool operator==(const HeadFinding&) const = default;
};

struct TensorCheck {
  /// Range of the finite values; NaN when there is none.
  float minimum = std::numeric_limits<float>::quiet_NaN();
  float maximum = std::numeric_limits<float>::quiet_NaN();
  /// Ascending by head; only heads with a finding. A small file may hold a million heads that are all zero: at most
  /// kMaxFindings are kept, those that are not finite first.
  std::vector<HeadFinding> findings;
  std::size_t num_left_out = 0;  ///< further heads with a finding
  static constexpr std::size_t kMaxFindings = 1000;
};

/// A value of a dump with values_in_keys that is not the first channels of its key, bit for bit.
struct OtherValue {
  int head = 0;
  std::int64_t token = 0;
};

struct LayerCheck {
  int layer = 0;
  TensorCheck q, k, v;
  std::optional<OtherValue> other_value;  ///< the first one
  std::string bad_array;                  ///< of the first other array that is not finite: first_bad_element()

  std::array<std::pair<const char*, const TensorCheck*>, 3> tensors() const {
    return {{{"q", &q}, {"k", &k}, {"v", &v}}};
  }
  /// True when there is no NaN or infinity: only then can the layer be studied.
  bool finite() const;
  bool sound() const { return finite() && !other_value && bad_array.empty(); }
};

LayerCheck check_values(const AttentionLayer& layer);

/// "layer 3, k, head 1: NaN, first at token 17" for the first head that is not finite; empty when all are.
std::string first_bad_value(const LayerCheck& check);

/// "layer 3, v, head 0: is not the first channels of k (values_in_keys), first at token 17"; `check` has such a value.
std::string other_value_text(const LayerCheck& check);

/// "layer 3, output, head 1: NaN, first at token 17" for the first element of an array of the layer that is not finite,
/// or "layer 3, cache_scales, entry 1: NaN" where it has no head; empty when all are. `shape` as in dump_fields.h.
std::string first_bad_element(const AttentionLayer& layer, std::string_view name, std::string_view shape,
                              std::span<const float> values);

/// The same for the engine's outputs [N, Hq, Dv] and its log-sum-exps [N, Hq].
std::string first_bad_output(const AttentionLayer& layer, std::span<const float> output, std::span<const float> lse);

/// Describes the first NaN or +inf among the estimates that a query uses, those of the keys it sees: "own.h5: sample
/// 's', layer 3, 'scores', query at 900, head 1: NaN at token 17". Empty when there is none.
std::string first_bad_estimate(const AttentionLayer& layer, const std::string& sample);

}  // namespace attest
