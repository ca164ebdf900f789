// The one abstraction: a selector is an estimate of the scores, a rule that gives every token its entry level in an
// ascending settings grid, and what its computer reads. Everything after that (outputs, metrics, sweeps, figures) is
// the same for all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dumps/attention_layer.h"
#include "kernels/kv_head.h"
#include "kernels/level.h"
#include "kernels/metric_info.h"
#include "kernels/row_matrix.h"
#include "kernels/selectors/options.h"
#include "kernels/setting.h"

namespace attest {

class CudaSelector;

/// Scores of every row with their descending order (made once, used by rules and by rank metrics).
struct RankedScores {
  RowMatrix<double> scores;        ///< [rows, length]; row r is defined for its covered tokens
  RowMatrix<std::uint32_t> order;  ///< [rows, length]: token of the i-th largest score, ties in ascending position
  bool ranked = false;             ///< `order` is filled

  /// Fills `order`; row r sorts its first covered[r / group] tokens.
  void rank(std::span<const std::int64_t> covered, int group);
};

/// Bytes that an ideal kernel of the method reads for one KV head and query (metrics: io_ratio):
/// fixed + per_kept_token * (tokens kept by any head of the group - free_tokens).
struct IoCost {
  double fixed = 0;
  double per_kept_token = 0;
  double free_tokens = 0;  ///< always kept, their bytes are in `fixed`
};

/// What a selector finds for one KV head. Used again from head to head: keeps its memory.
struct Selection {
  // -- estimate
  RankedScores own_estimate;
  const RankedScores* estimate = nullptr;  ///< s^ (own_estimate, or the exact scores); null: the selector has none
  std::vector<std::int64_t> covered;       ///< [num_queries] the estimate covers tokens 0 .. covered-1

  // -- rule
  RowMatrix<Level> levels;  ///< [rows, length] entry level after the GQA policy; S: no setting keeps the token

  // -- computer
  bool exact = false;  ///< nothing is dropped and exact keys and values are read: outputs are the exact ones
  RowMatrix<double> own_read_scores;
  const RowMatrix<double>* read_scores = nullptr;  ///< s'; null: the exact scores
  std::vector<float> approximate_values;           ///< v^ [length, Dv], or empty
  std::vector<std::int64_t> num_approximate;       ///< [num_queries] values 0 .. n-1 are read from v^
  RowMatrix<double> mean_value_share;              ///< [rows, S] a of o = a y + (1 - a) mean(v); empty: o = y

  // -- what it reads, and metrics of its own
  std::vector<IoCost> io;                      ///< [num_queries]
  std::vector<RowMatrix<double>> own_metrics;  ///< [Selector::own_metrics()][rows, S ascending settings, or 1]

  /// Everything back to "no estimate, exact reads", sized for this head. Levels stay undefined.
  void reset(const KvHead& head, std::span<const MetricInfo> own, int num_settings);
};

/// A settings grid of one query in the order in which rules take it: ascending in Selector::resolve(), so that each
/// setting keeps what the one before it keeps. Settings that resolve to the same value keep their order.
struct AscendingGrid {
  std::vector<double> values;    ///< [S] resolved, ascending
  std::vector<int> given_index;  ///< [S] position in the grid as it was given
};

class Selector {
 public:
  virtual ~Selector() = default;

  virtual SettingKind setting_kind() const = 0;
  /// False where a larger setting does not always keep a superset: such a rule is evaluated one setting at a time.
  virtual bool monotone() const { return true; }
  /// Whether select() gives an estimate (else correlation and scan errors are not defined).
  virtual bool has_estimate() const = 0;
  /// Whether the estimate is in natural-log units (else scan errors are not defined).
  virtual bool estimates_scores() const { return has_estimate(); }
  /// False where what the estimate costs is not known, so that io_ratio lacks it.
  virtual bool counts_scan() const { return true; }
  /// Metrics that the selector itself defines, with the axes query_head or query_head_setting.
  virtual std::span<const MetricInfo> own_metrics() const { return {}; }
  /// The value of a setting for a query that sees `visible` keys, in the unit of the rule: larger keeps more.
  virtual double resolve(const Setting& setting, std::int64_t visible) const { return setting.resolve(visible); }
  /// delta in natural-log units, for rules of the top-delta kind (metrics: salient_hit_rate); NaN for others.
  virtual double natural_delta(double setting, const ScoreTransform& transform) const;
  /// Throws UsageError where head dimensions do not suit the options, or the options do not suffice.
  virtual void check(int /*head_dim*/, int /*value_dim*/) const {}

  /// What the method comes to where only `visible` keys are there for this setting, whatever they hold: "keeps every
  /// key", for a reader who would take that for fidelity. Empty where the context is long enough.
  virtual std::string_view short_context(double /*setting*/, std::int64_t /*visible*/) const { return {}; }

  /// Files that the selector reads beside the dumps: their hashes stand in the manifest.
  virtual std::vector<std::string> input_files() const { return {}; }
  /// Where estimates come from that select() then finds in KvHead::estimates; none: it makes its own.
  virtual std::optional<EstimateSource> estimate_source() const { return std::nullopt; }

  /// Samples of the dump from which the selector learns before it is judged on the others; a study leaves them out.
  virtual std::vector<std::string> calibration_samples() const { return {}; }
  /// Learns from one layer of a calibration sample.
  virtual void calibrate(const AttentionLayer& /*layer*/) {}
  /// Fills `out`, which has been reset. `exact` are the exact scores of all rows, ranked.
  /// grids [num_queries]: every query's ascending grid, S settings each.
  virtual void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid> grids,
                      Selection& out) const = 0;

  /// The same selector in CUDA, made from the same options; null where it has none. It may refer to what this selector
  /// has learnt, so this selector outlives it.
  virtual std::shared_ptr<const CudaSelector> cuda_code() const { return nullptr; }

  /// As registered: "ffd".
  const std::string& name() const { return name_; }
  /// Layers 0 .. n-1 of the model in which the method is exact.
  int dense_layers() const { return dense_layers_; }
  /// Every option with its value.
  const std::vector<OptionValue>& options() const { return options_; }

 protected:
  /// Reads `dense_layers`, checks that no option is left over. The last thing that a constructor does.
  void finish(OptionReader& reader, int default_dense_layers);
  /// The same for a selector that has no dense layers.
  void finish(OptionReader& reader);

 private:
  std::string name_;
  int dense_layers_ = 0;
  std::vector<OptionValue> options_;
};

AscendingGrid ascending(const Selector& selector, std::span<const Setting> grid, std::int64_t visible);

/// What Selector::short_context says of a budget that covers the context.
inline constexpr std::string_view kKeepsEveryKey = "keeps every key";

/// Bytes of a dense 16-bit read of one token's key and value.
inline double dense_token_bytes(int head_dim, int value_dim) { return 2.0 * (head_dim + value_dim); }
inline double dense_token_bytes(const KvHead& head) { return dense_token_bytes(head.head_dim, head.value_dim); }

}  // namespace attest
