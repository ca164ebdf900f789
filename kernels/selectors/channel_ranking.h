// Ranking of channels by importance, per layer and head: the offline calibration of DoubleSparse.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dumps/attention_layer.h"

namespace attest {

/// The magnitude that ranks the channels: |q_d k_d| or |q_d| per query head, or |k_d| per KV head.
enum class ChannelStatistic : std::uint8_t { qk, q, k };

class ChannelRanking {
 public:
  explicit ChannelRanking(ChannelStatistic statistic) : statistic_(statistic) {}

  /// Reads a file of DoubleSparse's offline calibration: a JSON object with one entry per layer,
  /// "<prefix>layers.<l>.<suffix>.{qk,q,k}_proj": [heads][channels in descending importance]. Only the entries of this
  /// statistic are used. Throws InputError that names the file and the entry.
  void read_file(const std::string& path);

  /// Adds one layer of a sample: mean |q_d| over its queries times mean |k_d| over its keys, or one of the two.
  /// (Upstream takes the mean of |q_d k_d| with q and k of the same token. A dump with few queries does not have it.)
  void add(const AttentionLayer& layer);

  bool empty() const { return order_.empty() && magnitude_.empty(); }

  /// The `count` most important channels of a query head, in ascending channel order. Throws InputError if the ranking
  /// lacks the layer or the head, or was made for another head_dim.
  std::vector<std::uint32_t> channels(int layer, int query_head, int kv_head, int head_dim, int count) const;

 private:
  ChannelStatistic statistic_;
  std::string source_;                                            ///< named in error messages
  std::map<int, std::vector<std::vector<std::uint32_t>>> order_;  ///< [layer][head][channel], from a file
  std::map<int, std::vector<std::vector<double>>> magnitude_;     ///< [layer][head][channel], summed over samples
};

}  // namespace attest
