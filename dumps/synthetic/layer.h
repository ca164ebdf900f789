// The values of one layer of one sample of a synthetic dump; slabs can be made in any order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dumps/synthetic/dump.h"
#include "dumps/synthetic/heads.h"
#include "dumps/synthetic/positions.h"

namespace attest {

/// First words after the seed in the keys of random streams. A number must never change its meaning, or existing seeds
/// would give other dumps.
enum SyntheticStream : std::uint64_t {
  kModelHeadStream = 1,
  kSampleHeadStream = 2,
  kQueryStream = 3,
  kVariationStream = 4,
  kSpanStream = 5,
};

/// How rows of one class of tokens are drawn: channel c is (noise * step[c] + offset[c]) * 2^-20, in integers, so that
/// every compiler and processor gives the same bytes.
struct NoiseRow {
  std::vector<std::int32_t> step;
  std::vector<std::int32_t> offset;
};

/// A token of one KV head whose key carries a feature.
struct PlantedToken {
  std::int64_t token = 0;
  PlantedFeature feature = PlantedFeature::sink;
  int index = 0;  ///< among the tokens of this feature, in drawing order
};

/// Keys and values of one KV head. Thread-safe.
class SyntheticKvHead {
 public:
  SyntheticKvHead(const SyntheticOptions& options, const PositionFeatures& positions, int sample, int layer,
                  int kv_head);

  /// Tokens first .. first+count-1 as [count, D] or [count, Dv] of the element type.
  void fill_k(std::int64_t first, std::int64_t count, std::byte* out) const;
  void fill_v(std::int64_t first, std::int64_t count, std::byte* out) const;

  /// Ascending by token.
  const std::vector<PlantedToken>& planted() const { return planted_; }

  /// Channels that carry a feature.
  const std::vector<int>& channels(PlantedFeature feature) const {
    return channels_[static_cast<std::size_t>(feature)];
  }

  /// Signs of those channels in a key that carries the feature: its component there is sign * kPlantedNorm / sqrt(n).
  double sign(int channel) const { return signs_[static_cast<std::size_t>(channel)]; }

  /// Channels with a large constant offset, as in real keys.
  const std::vector<int>& outliers() const { return outliers_; }

 private:
  void choose_channels();
  void draw_rows();
  void plant(int sample);

  const SyntheticOptions& options_;
  const PositionFeatures& positions_;
  int layer_ = 0;
  std::uint64_t head_key_ = 0;   // of the model's KV head, the same in all samples
  std::uint64_t noise_key_ = 0;  // of this sample
  std::array<std::vector<int>, kPlantedFeatures> channels_;
  std::vector<int> outliers_;
  std::vector<double> signs_;  // [D]
  NoiseRow key_row_, value_row_, sink_value_row_, span_value_row_;
  std::array<NoiseRow, kPlantedFeatures> planted_key_rows_;
  std::vector<PlantedToken> planted_;
};

/// Queries of all heads.
class SyntheticQueries {
 public:
  SyntheticQueries(const SyntheticOptions& options, const PositionFeatures& positions, int sample, int layer,
                   double local_log_sum);

  /// Queries first .. first+count-1 as [count, Hq, D] of the element type. Throws UsageError when a value does not fit
  /// it.
  void fill_q(std::int64_t first, std::int64_t count, std::byte* out) const;

 private:
  void fill_row(std::int64_t query, int head, float* out) const;
  QueryRecipe recipe(int head, const SyntheticKvHead& kv_head) const;

  const SyntheticOptions& options_;
  const PositionFeatures& positions_;
  int sample_, layer_;
  double local_log_sum_;
  double scale_;
  std::vector<SyntheticKvHead> kv_heads_;
  std::vector<QueryRecipe> recipes_;  // [Hq]
};

/// Score that each position pair adds at a query's own token.
inline constexpr double kPositionHeight = 4;

}  // namespace attest
