// Online softmax of all storages of keys at once; their weights times the values of each storage are matrix products.
#include "analysis/audit/cache_screen.h"

#include <algorithm>
#include <cmath>

#include "analysis/audit/kv_storage.h"
#include "analysis/audit/row_attention.h"
#include "analysis/audit/weighted_sums.h"
#include "kernels/attention/scores.h"
#include "kernels/attention/sinks.h"

namespace attest {
namespace {

/// A column is a row of attention with one storage of keys: column k * rows + r.
class Screen {
 public:
  Screen(const AuditInput& input, std::span<const KvStorage> keys, std::span<const KvStorage> values,
         std::span<const RowPlace> rows, const std::atomic<bool>* stop)
      : layer_(input.layer),
        keys_(keys),
        values_(values),
        rows_(rows.size()),
        stop_(stop),
        kv_head_(rows.front().head / layer_.shape.group()),
        columns_(keys.size() * rows.size()),
        dim_(static_cast<std::size_t>(layer_.shape.value_dim)),
        weights_(columns_ * kTile),
        largest_(columns_, -INFINITY),
        sums_(columns_, 0.0) {
    outputs_.assign(values_in_keys() ? 1 : values.size(), std::vector<double>(columns_ * dim_, 0.0));
    for (const RowPlace& row : rows) {
      const std::int64_t position = layer_.query_positions[static_cast<std::size_t>(row.query)];
      tokens_.push_back({layer_.first_visible_key(position), position + 1});
    }
    for (const KvStorage& storage : keys) {
      std::vector<float>& queries = queries_.emplace_back();
      for (const RowPlace& row : rows) {
        const std::vector<float> query = read_query(storage, layer_, input.query(row.query, row.head));
        queries.insert(queries.end(), query.begin(), query.end());
      }
    }
  }

  void run() {
    const std::int64_t begin = std::ranges::min(tokens_, {}, &TokenRange::begin).begin;
    const std::int64_t end = std::ranges::max(tokens_, {}, &TokenRange::end).end;
    for_tiles(begin, end, stop_, [this](std::int64_t first, std::int64_t count) { add(first, count); });
  }

  /// Of a pair and a row; without the sink.
  std::vector<double> output(std::size_t k, std::size_t v, std::size_t r) const {
    const std::size_t column = k * rows_ + r;
    const std::vector<double>& outputs = outputs_[values_in_keys() ? 0 : v];
    std::vector<double> output(dim_);
    for (std::size_t d = 0; d < dim_; ++d) output[d] = outputs[column * dim_ + d] / sums_[column];
    return output;
  }
  double lse(std::size_t k, std::size_t r) const { return largest_[k * rows_ + r] + std::log(sums_[k * rows_ + r]); }

 private:
  bool values_in_keys() const { return layer_.shape.values_in_keys != 0; }

  void add(std::int64_t first, std::int64_t count) {
    const int key_dim = layer_.shape.head_dim;
    const auto dim = static_cast<std::int64_t>(dim_);
    const ScoreTransform transform{layer_.softmax_scale, layer_.logit_softcap};
    std::vector<double> tile(static_cast<std::size_t>(count * std::max<std::int64_t>(key_dim, dim)));
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      const KvStorages storages{keys_[k], {}};
      double* weights = weights_.data() + k * rows_ * kTile;
      StoredHead(layer_, kv_head_, storages).keys(first, count, tile.data());
      scores_into(queries_[k].data(), static_cast<int>(rows_), key_dim, tile.data(), count, transform, weights, kTile);
      for (std::size_t r = 0; r < rows_; ++r) weigh(k * rows_ + r, tokens_[r], first, count);
      if (values_in_keys())
        add_weighted(weights, static_cast<std::int64_t>(rows_), kTile, tile.data(), count, dim, key_dim,
                     outputs_[0].data() + k * rows_ * dim_);
    }
    if (values_in_keys()) return;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const KvStorages storages{{}, values_[v]};
      StoredHead(layer_, kv_head_, storages).values(first, count, tile.data());
      add_weighted(weights_.data(), static_cast<std::int64_t>(columns_), kTile, tile.data(), count, dim, dim,
                   outputs_[v].data());
    }
  }

  /// Scores become weights exp(s - largest), 0 of tokens that the row does not see; earlier sums follow the maximum.
  void weigh(std::size_t column, const TokenRange& tokens, std::int64_t first, std::int64_t count) {
    const std::span scores(weights_.data() + column * kTile, static_cast<std::size_t>(count));
    double largest = largest_[column];
    for (std::int64_t t = 0; t < count; ++t) {
      double& score = scores[static_cast<std::size_t>(t)];
      if (first + t < tokens.begin || first + t >= tokens.end) score = -INFINITY;
      largest = std::max(largest, score);
    }
    if (largest == -INFINITY) {
      std::ranges::fill(scores, 0.0);
      return;
    }
    const double kept = std::exp(largest_[column] - largest);
    largest_[column] = largest;
    if (kept != 1) {
      sums_[column] *= kept;
      for (std::vector<double>& outputs : outputs_)
        for (std::size_t d = 0; d < dim_; ++d) outputs[column * dim_ + d] *= kept;
    }
    for (double& score : scores) sums_[column] += score = std::exp(score - largest);
  }

  const AttentionLayer& layer_;
  std::span<const KvStorage> keys_, values_;
  std::size_t rows_;
  const std::atomic<bool>* stop_;
  int kv_head_;
  std::size_t columns_, dim_;
  std::vector<double> weights_;               ///< [columns, tokens of a tile]
  std::vector<double> largest_, sums_;        ///< [columns]
  std::vector<std::vector<double>> outputs_;  ///< [values][columns, Dv]
  std::vector<TokenRange> tokens_;            ///< [rows]
  std::vector<std::vector<float>> queries_;   ///< [keys][rows, D]
};

bool fit_together(const KvStorage& keys, const KvStorage& values) {
  const auto rotates = [](const KvStorage& side) { return side.format != nullptr && side.format->of_llama_cpp; };
  return !rotates(keys) || !rotates(values) || keys.rotate == values.rotate;
}

}  // namespace

std::vector<StoragePair> screen_storages(const AuditInput& input, std::span<const KvStorage> keys,
                                         std::span<const KvStorage> values, std::span<const RowPlace> rows,
                                         std::span<const RowPrediction> known, const RoundingBound& bound,
                                         const std::atomic<bool>* stop) {
  Screen screen(input, keys, values, rows, stop);
  screen.run();
  std::vector<StoragePair> pairs;
  for (std::size_t k = 0; k < keys.size(); ++k)
    for (std::size_t v = 0; v < values.size(); ++v) {
      if (!fit_together(keys[k], values[v])) continue;
      StoragePair& pair = pairs.emplace_back(k, v);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        std::vector<double> output = screen.output(k, v, r);
        double lse = screen.lse(k, r), squares = 0;
        if (!input.layer.sinks.empty()) {
          const double with_sink = lse_with_sink(lse, input.layer.sinks[static_cast<std::size_t>(rows[r].head)]);
          for (double& x : output) x *= std::exp(lse - with_sink);
          lse = with_sink;
        }
        for (const double x : output) squares += x * x;
        RowRounding rounding = known[r].rounding;
        rounding.size = std::max(rounding.size, std::sqrt(squares));
        pair.fits.push_back(fit_row(input.observed(rows[r].query, rows[r].head),
                                    input.observed_lse(rows[r].query, rows[r].head), output, lse, rounding, bound));
      }
    }
  return pairs;
}

}  // namespace attest
