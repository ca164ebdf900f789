// sale: keeps a block of 32 keys if the 4-bit estimate of any of its scores exceeds the log of a share tau of the
// softmax mass of the first and last blocks. Each query head selects on its own.
//   k' = k - mean of the visible keys
//   q4, sq and k4, sk: symmetric 4-bit codes and scales of q and k' (quantize/sale_int4.h)
//   s^ = scale * (sq sk q4.k4 + q.mean(k)); the constant q.mean(k) cancels in the rule, but makes s^ an estimate of s
//   sink block: block 0; local blocks: the last 4 + (N - 1) mod 4 of N = ceil(L / 32) blocks
//   Z = sum of exp(s) over the sink and local blocks, exact scores
//   rule: keep the sink and local blocks, and every block with a token whose s^ > ln(tau Z) (strict); no ties arise
//   a query that sees at most `dense_below` = 1024 keys keeps all of them
// The setting is delta = -ln tau, that is s^ > ln Z - delta, so that a larger setting keeps more. Upstream's
// calibration starts at tau = 0.008 (delta = 4.83); the example in its README is tau = 0.004 (delta = 5.52).
//
// Differences from upstream:
//   Upstream calibrates tau per head on other data. Here tau is swept.
//   Upstream prefills and keeps a block for 64 queries if any of them needs it. Here each query selects alone.
//   Upstream subtracts the mean query of the prompt. Here q_mean = none: a dump does not hold all queries, and the mean
//   of the few that it holds is nearly the query itself, which would make the estimate almost exact.
//
// Source: BirdChristopher/SALE int4_flash_attn/quant_triton.py,
// csrc/flash_attn/src/flash_fwd_int4_sparse_kernel_v2.h, int4_flash_attn/patch/llama31_sparse_patch_4_51.py.
// Bytes per KV head: L D/2 + 2L (scales) + kept * 2(D + Dv).
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/scores.h"
#include "kernels/base/lane_sum.h"
#include "kernels/rank/entry_levels.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/sale_options.h"

namespace attest {
namespace {

constexpr std::int64_t kBlock = kSaleBlock;
constexpr std::int64_t kTokensAtOnce = 8 * kBlock;

class Sale final : public SelectorWith<SaleOptions, make_cuda_sale> {
 public:
  explicit Sale(OptionReader& reader) : SelectorWith(reader) { finish(reader, 0); }

  SettingKind setting_kind() const override { return SettingKind::delta; }
  bool has_estimate() const override { return true; }
  std::string_view short_context(double, std::int64_t visible) const override {
    return keeps_all(visible) ? kKeepsEveryKey : std::string_view{};
  }

  void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    out.own_estimate.scores.resize(head.rows(), head.length);
    out.estimate = &out.own_estimate;
    for (int n = 0; n < head.num_queries; ++n) {
      const auto query = static_cast<std::size_t>(n);
      const std::int64_t visible = head.visible[query];
      estimate_scores(head, n, out.own_estimate.scores);
      out.io[query] = bytes(head.shape(), visible);
      for (int r = n * head.group; r < (n + 1) * head.group; ++r)
        if (keeps_all(visible))
          std::fill_n(out.levels.row(r), visible, Level{0});
        else
          select_row(exact.scores.row(r, visible), std::as_const(out.own_estimate.scores).row(r, visible),
                     grids[query].values, out.levels.row(r));
    }
  }

 private:
  /// Processes one query at a time: the mean key, and with it every code, depends on the number of visible keys.
  void estimate_scores(const KvHead& head, int n, RowMatrix<double>& scores) const {
    const int dim = head.head_dim;
    const std::int64_t visible = head.visible[static_cast<std::size_t>(n)];
    const std::vector<float> mean = mean_key(head.keys, visible, dim);
    const float* queries = head.queries + std::int64_t{n} * head.group * dim;
    std::vector<float> query_codes(static_cast<std::size_t>(head.group * dim)),
        query_scales(static_cast<std::size_t>(head.group));
    sale_quantize_tokens(queries, head.group, dim, query_codes.data(), query_scales);
    std::vector<float> keys(static_cast<std::size_t>(kTokensAtOnce * dim)), codes(keys.size()),
        key_scales(static_cast<std::size_t>(kTokensAtOnce));
    head.each_tile(visible, kTokensAtOnce, [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t t = 0; t < count; ++t)
        for (int d = 0; d < dim; ++d)
          keys[static_cast<std::size_t>(t * dim + d)] =
              head.keys[(begin + t) * dim + d] - mean[static_cast<std::size_t>(d)];
      sale_quantize_keys(key_scale_, keys.data(), count, dim, codes.data(), key_scales);
      double* first = scores.row(n * head.group) + begin;
      scores_into(query_codes.data(), head.group, dim, codes.data(), count, {.scale = 1, .softcap = 0}, first,
                  scores.stride());
      for (int h = 0; h < head.group; ++h) {
        const double of_mean = dot(queries + h * dim, mean),
                     query_scale = static_cast<double>(query_scales[static_cast<std::size_t>(h)]);
        double* row = first + h * scores.stride();
        for (std::int64_t t = 0; t < count; ++t)
          row[t] = head.transform(query_scale * static_cast<double>(key_scales[static_cast<std::size_t>(t)]) * row[t] +
                                  of_mean);
      }
    });
  }

  static std::vector<float> mean_key(const float* keys, std::int64_t tokens, int dim) {
    std::vector<double> sum(static_cast<std::size_t>(dim), 0.0);
    for (std::int64_t j = 0; j < tokens; ++j)
      for (int d = 0; d < dim; ++d) sum[static_cast<std::size_t>(d)] += static_cast<double>(keys[j * dim + d]);
    std::vector<float> mean;
    for (double x : sum) mean.push_back(static_cast<float>(x / static_cast<double>(tokens)));
    return mean;
  }

  static double dot(const float* query, const std::vector<float>& mean) {
    double sum = 0;
    for (std::size_t d = 0; d < mean.size(); ++d) sum += static_cast<double>(query[d]) * static_cast<double>(mean[d]);
    return sum;
  }

  static void select_row(std::span<const double> exact, std::span<const double> estimate,
                         std::span<const double> deltas, Level* levels) {
    const auto length = static_cast<std::int64_t>(exact.size()), local = first_local(length);
    const std::span<const double> sink = exact.first(static_cast<std::size_t>(std::min(length, kBlock)));
    const std::span<const double> ends = exact.subspan(static_cast<std::size_t>(std::min(length, local)));
    const auto max_of = [](std::span<const double> s) {
      return lane_max(s.size(), -std::numeric_limits<double>::infinity(), [&](std::size_t i) { return s[i]; });
    };
    const double max = std::max(max_of(sink), max_of(ends));
    const auto mass_of = [max](std::span<const double> s) {
      return lane_sum(s.size(), [&](std::size_t i) { return std::exp(s[i] - max); });
    };
    const double log_mass = max + std::log(mass_of(sink) + mass_of(ends));
    std::vector<double> thresholds;
    for (double delta : deltas)  // "> x" is ">= the next double after x"
      thresholds.push_back(std::nextafter(log_mass - delta, std::numeric_limits<double>::infinity()));
    for (std::int64_t begin = 0; begin < length; begin += kBlock) {
      const std::int64_t end = std::min(length, begin + kBlock);
      const double best =
          max_of(estimate.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
      Level level = 0;
      if (begin > 0 && begin < local) threshold_levels({&best, 1}, thresholds, {&level, 1});
      std::fill(levels + begin, levels + end, level);
    }
  }
};

}  // namespace

extern const SelectorInfo sale_info;
const SelectorInfo sale_info{
    .name = "sale",
    .summary = "SALE: blocks whose 4-bit estimate reaches a share tau = exp(-delta) of the mass at the sequence's ends",
    .io_bytes = "L D/2 + 2L + kept 2(D+Dv)",
    .source =
        "SALE; BirdChristopher/SALE int4_flash_attn/quant_triton.py, "
        "csrc/flash_attn/src/flash_fwd_int4_sparse_kernel_v2.h",
    .make = make_from_options<Sale>};

}  // namespace attest
