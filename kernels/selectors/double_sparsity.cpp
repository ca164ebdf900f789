// double_sparsity: estimates scores from a label cache, which holds the r most important channels according to an
// offline calibration, and keeps the n best tokens per query head.
//   channels: r = D / group_factor, ranked per layer and head by |q_d k_d| (channel = qk), |q_d| (q) or |k_d| (k)
//   label cache: those channels of q and k, asymmetric 4 bit per token (quantize/token_asymmetric.h); bits = 16: exact
//   s^ = scale * q_r.k_r
//   rule: keep the n = budget (heavy_const) tokens with the largest s^ per query head; ties: lower position
//   reads exact keys and values
// The ranking never comes from the evaluated rows. Its source is one of
//   channels = FILE: a JSON file of the upstream calibration
//   calibrate = SAMPLE[+SAMPLE...]: samples of the dump, which the study then leaves out
//
// Source: DoubleSparse; andy-yang-1/DoubleSparse config/offline_calibration.py, evaluation/modify_llama.py.
// The defaults of the released code conflict (group factors 2, 4, 8; lists q, k, qk). group_factor = 4 with 4 bits is
// the 1/16 of its evaluations. Its k lists have one row per KV head, and it leaves the other query heads dense. Here
// every query head of a group uses the list of its KV head.
//
// Bytes per KV head, with C label caches (C = G for qk and q, 1 for k):
//   C L r bits/8 + (bits < 16) 4 C L + kept * 2(D + Dv)
#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "kernels/attention/scores.h"
#include "kernels/device/on_cuda.h"
#include "kernels/rank/entry_levels.h"
#include "kernels/selectors/double_sparsity_options.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

class DoubleSparsity final : public Selector, DoubleSparsityOptions {
 public:
  explicit DoubleSparsity(OptionReader& reader) : DoubleSparsityOptions(reader), ranking_(statistic_) {
    channels_file_ = reader.text("channels", "", {"JSON file of the upstream calibration; needs this or calibrate"});
    const std::string samples =
        reader.text("calibrate", "",
                    {"samples of the dump to learn the channels from: SAMPLE[+SAMPLE...]; the study leaves them out"});
    finish(reader, 2);
    if (!channels_file_.empty() && !samples.empty())
      throw UsageError(
          "selector 'double_sparsity': both 'channels' and 'calibrate' are given, expected one source of the channel "
          "ranking");
    if (!channels_file_.empty()) ranking_.read_file(channels_file_);
    for (std::size_t begin = 0; begin < samples.size();) {
      const std::size_t end = std::min(samples.find('+', begin), samples.size());
      calibration_samples_.push_back(samples.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  SettingKind setting_kind() const override { return SettingKind::budget; }
  bool has_estimate() const override { return true; }
  std::string_view short_context(double budget, std::int64_t visible) const override {
    return budget >= static_cast<double>(visible) ? kKeepsEveryKey : std::string_view{};
  }
  std::vector<std::string> input_files() const override {
    return channels_file_.empty() ? std::vector<std::string>() : std::vector{channels_file_};
  }
  std::vector<std::string> calibration_samples() const override { return calibration_samples_; }
  void calibrate(const AttentionLayer& layer) override { ranking_.add(layer); }
  std::shared_ptr<const CudaSelector> cuda_code() const override {
    return call_on_cuda<make_cuda_double_sparsity, DoubleSparsityOptions, ChannelRanking>(*this, ranking_);
  }

  void check(const KvShape& kv) const override {
    if (ranking_.empty() && calibration_samples_.empty())
      throw UsageError(
          "selector 'double_sparsity' needs a channel ranking: channels=FILE (JSON of its offline calibration) or "
          "calibrate=SAMPLE[+SAMPLE] (samples of the dump, which the study then leaves out)");
    if (kv.head_dim % group_factor_ != 0)
      throw UsageError(
          fmt::format("selector 'double_sparsity': group_factor is {}, expected a divisor of head_dim, which is {}",
                      group_factor_, kv.head_dim));
  }

  void select(const KvHead& head, const RankedScores&, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    out.own_estimate.scores.resize(head.rows(), head.length);
    for (int h = 0; h < head.group; ++h) estimate_scores(head, h, out.own_estimate.scores);
    out.own_estimate.rank(out.covered, head.group);
    out.estimate = &out.own_estimate;
    for (int r = 0; r < head.rows(); ++r) {
      const std::int64_t visible = head.row_length(r);
      std::vector<std::int64_t> counts;
      for (double budget : grids[static_cast<std::size_t>(r / head.group)].values)
        counts.push_back(kept_tokens(budget, visible));
      top_n_levels_of(out.own_estimate.order.row(r, visible), counts,
                      {out.levels.row(r), static_cast<std::size_t>(visible)});
    }
    for (std::size_t n = 0; n < out.io.size(); ++n) out.io[n] = bytes(head.shape(), head.group, head.visible[n]);
  }

 private:
  /// Scores of query head h of the group, for all queries.
  void estimate_scores(const KvHead& head, int h, RowMatrix<double>& scores) const {
    const int label = rank(head.head_dim);
    const std::vector<std::uint32_t> set =
        ranking_.channels(head.layer, head.kv_head * head.group + h, head.kv_head, head.head_dim, label);
    // Gathers the label channels of `count` rows, `stride` elements apart.
    const auto labels = [&](const float* rows, std::int64_t stride, std::int64_t count, std::vector<float>& out) {
      out.clear();
      for (std::int64_t i = 0; i < count; ++i)
        for (std::uint32_t d : set) out.push_back(rows[i * stride + d]);
      if (quantises()) quantize_tokens(quantizer(), out.data(), count, label, out.data());
    };
    std::vector<float> queries, keys;
    labels(head.queries + std::int64_t{h} * head.head_dim, std::int64_t{head.group} * head.head_dim, head.num_queries,
           queries);
    head.each_tile(head.length, KvHead::kTokensAtOnce, [&](std::int64_t begin, std::int64_t count) {
      labels(head.keys + begin * head.head_dim, head.head_dim, count, keys);
      scores_into(queries.data(), head.num_queries, label, keys.data(), count, head.transform, scores.row(h) + begin,
                  head.group * scores.stride());
    });
  }

  ChannelRanking ranking_;
  std::string channels_file_;
  std::vector<std::string> calibration_samples_;
};

}  // namespace

extern const SelectorInfo double_sparsity_info;
const SelectorInfo double_sparsity_info{
    .name = "double_sparsity",
    .summary = "DoubleSparse: scores from a 4-bit cache of the channels that calibration found important",
    .io_bytes = "C L r bits/8 + 4 C L + kept 2(D+Dv), C = G (qk, q) or 1 (k)",
    .source = "DoubleSparse; andy-yang-1/DoubleSparse evaluation/modify_llama.py, config/offline_calibration.py",
    .make = make_from_options<DoubleSparsity>};

}  // namespace attest
