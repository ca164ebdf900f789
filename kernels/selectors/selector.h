// The selector interface. A selector has three parts: an estimate of the scores, a rule that gives every token its
// entry level in an ascending settings grid, and a scorer, which defines the scores and values that the output is
// computed from. The code for outputs, metrics, sweeps and figures is the same for all selectors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/attention_layer.h"
#include "kernels/attention/setting_outputs.h"
#include "kernels/base/kv_head.h"
#include "kernels/base/level.h"
#include "kernels/base/metric_info.h"
#include "kernels/base/row_matrix.h"
#include "kernels/base/setting.h"
#include "kernels/selectors/dense_heads.h"
#include "kernels/selectors/options.h"
#include "kernels/selectors/settings_file.h"

namespace attest {

class CudaSelector;

/// Scores of every row with their descending order, which is computed once and used by rules and rank metrics.
struct RankedScores {
  RowMatrix<double> scores;        ///< [rows, length]; row r is defined for its covered tokens
  RowMatrix<std::uint32_t> order;  ///< [rows, length]: token of the i-th largest score, ties in ascending position
  bool ranked = false;             ///< `order` is filled

  /// Fills `order`; row r sorts its first covered[r / group] tokens.
  void rank(std::span<const std::int64_t> covered, int group);
};

/// Bytes that an ideal kernel of the method reads for one KV head and query (metric io_ratio):
/// fixed + per_kept_token * (tokens kept by any head of the group - free_tokens).
struct IoCost {
  double fixed = 0;
  double per_kept_token = 0;
  double free_tokens = 0;  ///< always kept; their bytes are included in `fixed`
};

/// The result of a selector for one KV head. It is reused for the next head and keeps its memory.
struct Selection {
  // -- estimate
  RankedScores own_estimate;
  RankedScores stored;                     ///< scores of the keys of a quantised cache (cached_selector.h)
  const RankedScores* estimate = nullptr;  ///< s^ (own_estimate, stored or the exact scores); null: there is none
  std::vector<std::int64_t> covered;       ///< [num_queries] the estimate covers tokens 0 .. covered-1

  // -- rule
  RowMatrix<Level> levels;  ///< [rows, length] entry level after the GQA policy; S: no setting keeps the token

  // -- scorer
  bool exact = false;  ///< nothing is dropped and exact keys and values are read: outputs are the exact ones
  RowMatrix<double> own_read_scores;
  const RowMatrix<double>* read_scores = nullptr;  ///< s'; null: the exact scores
  std::vector<float> approximate_values;           ///< v^ [length, Dv], or empty
  std::vector<std::int64_t> num_approximate;       ///< [num_queries] values 0 .. n-1 are read from v^
  ValueRows stored_values;                         ///< makes what is read in place of the other values; empty: exact
  RowMatrix<double> mean_value_share;              ///< [rows, S] a of o = a y + (1 - a) mean(v); empty: o = y

  // -- bytes read, and the selector's own metrics
  std::vector<IoCost> io;                      ///< [num_queries]
  std::vector<RowMatrix<double>> own_metrics;  ///< [Selector::own_metrics()][rows, S ascending settings, or 1]

  /// Resets to "no estimate, exact reads" and resizes for this head. The contents of `levels` are undefined.
  void reset(const KvHead& head, std::span<const MetricInfo> own, int num_settings);
};

/// The settings grid of one query, sorted by Selector::resolve() in ascending order, so that each setting keeps a
/// superset of the one before. The sort is stable.
struct AscendingGrid {
  std::vector<double> values;    ///< [S] resolved, ascending; with the shift of a KV head if it has one
  std::vector<int> given_index;  ///< [S] index in the grid as the user gave it
};

class Selector {
 public:
  virtual ~Selector() = default;

  virtual SettingKind setting_kind() const = 0;
  /// False if a larger setting does not always keep a superset. Such a rule is evaluated one setting at a time.
  virtual bool monotone() const { return true; }
  /// Whether select() writes an estimate. Without one, correlation and scan errors are undefined.
  virtual bool has_estimate() const = 0;
  /// Whether the estimate is in natural-log units. If not, scan errors are undefined.
  virtual bool estimates_scores() const { return has_estimate(); }
  /// False if the cost of the estimate is unknown. Then io_ratio does not include it.
  virtual bool counts_scan() const { return true; }
  /// Additional metrics that this selector defines, with the axes query_head or query_head_setting.
  virtual std::span<const MetricInfo> own_metrics() const { return {}; }
  /// The value of a setting for a query that sees `visible` keys, in the unit of the rule. A larger value keeps more.
  virtual double resolve(const Setting& setting, std::int64_t visible) const { return setting.resolve(visible); }
  /// delta in natural-log units for top-delta rules (metric salient_hit_rate); NaN for others.
  virtual double natural_delta(double setting, const ScoreTransform& transform) const;
  /// Throws UsageError if the options do not fit the shape of keys and values, or if a required option is missing.
  virtual void check(const KvShape&) const {}
  /// Throws InputError if a file that the selector reads lacks something for this layer of the model, UsageError if the
  /// layer lacks one of `dense_heads`.
  virtual void check_layer(int layer, int num_kv_heads) const;

  /// A note for results where `visible` is too small for the method to take effect, for instance "keeps every key". It
  /// warns readers who would take such a result for fidelity. It depends on the lengths alone, not on the data. Empty
  /// if the context is long enough.
  virtual std::string_view short_context(double /*setting*/, std::int64_t /*visible*/) const { return {}; }

  /// Files that the selector reads in addition to the dumps. The manifest records their hashes.
  virtual std::vector<std::string> input_files() const;
  /// What select() reads from KvHead::estimates; empty if it computes its own.
  virtual std::vector<EstimateSource> estimate_sources() const { return {}; }

  /// Samples of the dump used for calibration. A study leaves them out of the evaluation.
  virtual std::vector<std::string> calibration_samples() const { return {}; }
  /// Learns from one layer of a calibration sample.
  virtual void calibrate(const AttentionLayer& /*layer*/) {}
  /// Whether select() reads KvHead::key_amax and value_amax.
  virtual bool needs_amax() const { return false; }
  /// Whether select() reads exact.order, and not only exact.scores.
  virtual bool needs_exact_order() const { return false; }
  /// Fills `out`, which has been reset. `exact` holds the exact scores of all rows, ranked if needs_exact_order().
  /// grids [num_queries]: every query's ascending grid, S settings each.
  virtual void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid> grids,
                      Selection& out) const = 0;

  /// The CUDA implementation with the same options, or null if there is none. It may refer to this selector's
  /// calibration, so this selector must outlive it.
  virtual std::shared_ptr<const CudaSelector> cuda_code() const { return nullptr; }

  /// The registered name, for instance "ffd".
  const std::string& name() const { return name_; }
  /// n: in layers 0 .. n-1 of the model, attention is exact; perhaps in others, too (is_dense).
  int dense_layers() const { return dense_layers_; }
  /// The largest number of a layer that an option makes dense by itself; -1: none does.
  int last_named_layer() const { return more_dense_layers_.empty() ? -1 : *more_dense_layers_.rbegin(); }
  /// The file of the option settings_file; null without it.
  const SettingsFile* settings_file() const { return settings_file_ ? &*settings_file_ : nullptr; }
  /// Whether attention is exact for a KV head: in dense layers, as one of dense_heads, or because its settings file
  /// says so. select() is not called for it.
  bool is_dense(int layer, int kv_head) const;
  /// Whether it is exact for all KV heads of the layer.
  bool is_dense_layer(int layer, int num_kv_heads) const;
  /// KV heads with exact attention: the option dense_heads.
  const DenseHeads& dense_heads() const { return dense_heads_; }
  /// What the settings file adds to every setting of the grid for a KV head; 0 without a file. NaN for a KV head that
  /// is dense under a file: it has no setting.
  double setting_shift(int layer, int kv_head) const;
  /// Every option with its value.
  const std::vector<OptionValue>& options() const { return options_; }

 protected:
  /// Makes a layer dense beside those of `dense_layers`.
  void add_dense_layer(int layer) { more_dense_layers_.insert(layer); }
  /// Reads `dense_layers` and `dense_heads`, and checks that no option is left over. Constructors call this last.
  void finish(OptionReader& reader, int default_dense_layers);
  /// The same for a selector that has no dense layers.
  void finish(OptionReader& reader);
  /// The same for a selector without dense layers by default that takes a settings file while its setting is a delta.
  /// `condition` is the option that makes it one: "rule=topdelta"; empty if it always is.
  void finish_with_settings_file(OptionReader& reader, SettingKind kind, std::string_view condition);

 private:
  void check_settings_file() const;

  std::string name_;
  int dense_layers_ = 0;
  std::set<int> more_dense_layers_;
  DenseHeads dense_heads_;
  std::vector<OptionValue> options_;
  std::optional<SettingsFile> settings_file_;
};

/// `shift` (Selector::setting_shift()) is added after sorting, so that KV heads differ in values alone.
AscendingGrid ascending(const Selector& selector, std::span<const Setting> grid, std::int64_t visible,
                        double shift = 0);

/// The grid of every query of a head, with the shift of its KV head.
std::vector<AscendingGrid> ascending_grids(const Selector& selector, const KvHead& head, std::span<const Setting> grid);

/// Selector::short_context() for a budget that covers the whole context.
inline constexpr std::string_view kKeepsEveryKey = "keeps every key";

/// Bytes of a dense 16-bit read of one token's key and value.
inline double dense_token_bytes(const KvShape& kv) {
  return 2.0 * (kv.values_in_keys ? kv.head_dim : kv.head_dim + kv.value_dim);
}
inline double dense_token_bytes(const KvHead& head) { return dense_token_bytes(head.shape()); }

}  // namespace attest
