// Input of the metrics' CPU functions: one row (query, query head) of exact attention, and one selector's results for
// that row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention/setting_outputs.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// Exact attention of a row over its L visible keys. Token indices count from the first visible key.
struct ExactRow {
  std::span<const double> scores;              ///< [L] s, natural-log units
  std::span<const double> probabilities;       ///< [L] softmax(s) over the visible keys
  std::span<const std::uint32_t> order;        ///< [L] descending s, ties in ascending position
  std::span<const double> output;              ///< [Dv] o
  double keys_lse = 0;                         ///< log sum exp(s) over the keys, without the learned sink
  double lse = 0;                              ///< log sum exp(s) including the learned sink, if there is one
  std::optional<double> sink;                  ///< b, the learned sink's logit
  double max = 0;                              ///< m
  std::span<const std::uint32_t> span_tokens;  ///< tokens of the sample's spans that the query sees, ascending
  bool sample_has_spans = false;
  double head_weight = 0;                  ///< of the query head, where the layer has head gradients
  std::span<const float> output_gradient;  ///< [Dv] of the row, where the layer has output gradients
};

/// Totals over the tokens that a setting keeps, for every ascending setting. Made by kept_totals() (kept_set.h).
struct KeptTotals {
  std::vector<double> kept_tokens, kept_mass;                             ///< number and exact mass of the tokens in I
  std::vector<double> dropped_max;                                        ///< max of s outside I; -inf if none dropped
  std::vector<double> salient_tokens, salient_kept, salient_missed_mass;  ///< of tokens with s >= m - delta_s
  double fixed_salient_tokens = 0;                                        ///< with delta_s = --salient-delta
  std::vector<double> fixed_salient_kept;
  std::vector<double> span_kept_tokens, span_kept_mass;
};

/// Moments and tails of s^ - s over the covered tokens. Made by scan_errors() (scan_error.h).
struct ScanErrors {
  double mean = 0, std = 0, max = 0;
  std::vector<double> tail, lower_tail;  ///< [M]
};

/// Bytes that a kernel of the method reads for one query and KV head. All query heads of the group share them.
struct GroupReads {
  IoCost cost;
  std::vector<std::int64_t> kept_tokens;  ///< [S] kept by any head of the group
  double dense_bytes = 0;                 ///< of a dense 16-bit read
};

/// One selector's results for a row.
struct SelectorRow {
  const ExactRow* exact = nullptr;
  int num_settings = 0;
  std::span<const Level> levels;            ///< [L]
  std::span<const double> salient_deltas;   ///< [S] delta_s of each ascending setting, ascending
  double fixed_salient_delta = 0;           ///< --salient-delta
  const SettingOutputs* outputs = nullptr;  ///< o^ and LSE^ per setting
  const GroupReads* reads = nullptr;
  std::span<const double> estimate;               ///< [covered] s^; empty where there is none
  std::span<const std::uint32_t> estimate_order;  ///< [covered]
  std::span<const double> lambdas;                ///< [M]

  // Shared by several metrics; the first of them fills it.
  mutable std::optional<KeptTotals> kept;
  mutable std::optional<ScanErrors> errors;
};

}  // namespace attest
