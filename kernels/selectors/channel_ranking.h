// Which channels matter most, per layer and head: what DoubleSparse learns before it runs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// Which magnitudes rank the channels: |q_d k_d| or |q_d| per query head, or |k_d| per KV head.
enum class ChannelStatistic : std::uint8_t { qk, q, k };

class ChannelRanking {
 public:
  explicit ChannelRanking(ChannelStatistic statistic) : statistic_(statistic) {}

  /// A file of DoubleSparse's offline calibration: an object of "<prefix>layers.<l>.<suffix>.{qk,q,k}_proj":
  /// [heads][channels in descending importance], of which those of the statistic are taken. Throws InputError naming
  /// file and place.
  void read_file(const std::string& path);

  /// Adds a layer of a sample: mean |q_d| over its queries times mean |k_d| over its keys, or either alone. (The
  /// upstream file has the mean of |q_d k_d| of the same token, which a dump of a few queries does not give.)
  void add(const AttentionLayer& layer);

  bool empty() const { return order_.empty() && magnitude_.empty(); }

  /// The `count` most important channels of a query head, ascending. Throws InputError where the ranking lacks the
  /// layer or was made for other heads or dimensions.
  std::vector<std::uint32_t> channels(int layer, int query_head, int kv_head, int head_dim, int count) const;

 private:
  ChannelStatistic statistic_;
  std::string source_;                                            ///< for errors
  std::map<int, std::vector<std::vector<std::uint32_t>>> order_;  ///< [layer][head][channel], from a file
  std::map<int, std::vector<std::vector<double>>> magnitude_;     ///< [layer][head][channel], summed over samples
};

}  // namespace attest
