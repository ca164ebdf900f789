// Online softmax of all storages of keys at once; their weights times the values of each storage are matrix products.
#include "analysis/audit/cache_screen.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "analysis/audit/row_attention.h"
#include "dumps/base/error.h"
#include "kernels/attention/scores.h"
#include "kernels/attention/sinks.h"

namespace attest {
namespace {

constexpr std::int64_t kTile = 256;

using Matrix = Eigen::MatrixXd;  // column-major: a column is a row of attention, or a token's value

class Screen {
 public:
  Screen(const AuditInput& input, std::span<const KvStorage> keys, std::span<const KvStorage> values,
         std::span<const RowPlace> rows, const std::atomic<bool>* stop)
      : input_(input),
        layer_(input.layer),
        keys_(keys),
        values_(values),
        rows_(rows),
        stop_(stop),
        kv_head_(rows.front().head / layer_.shape.group()),
        columns_(static_cast<Eigen::Index>(keys.size() * rows.size())),
        weights_(kTile, columns_),
        largest_(Eigen::VectorXd::Constant(columns_, -INFINITY)),
        sums_(Eigen::VectorXd::Zero(columns_)) {
    const Eigen::Index dim = layer_.shape.value_dim;
    outputs_.assign(values_in_keys() ? 1 : values.size(), Matrix::Zero(dim, columns_));
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::int64_t position = layer_.query_positions[static_cast<std::size_t>(rows[r].query)];
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
    for (std::int64_t first = begin; first < end; first += kTile) {
      if (stop_ != nullptr && *stop_) throw Interrupted("interrupted");
      add(first, std::min(kTile, end - first));
    }
  }

  /// Of a pair and a row; without the sink.
  std::vector<double> output(std::size_t k, std::size_t v, std::size_t r) const {
    const Eigen::Index column = column_of(k, r);
    const auto values = outputs_[values_in_keys() ? 0 : v].col(column);
    std::vector<double> output(static_cast<std::size_t>(values.size()));
    for (std::size_t d = 0; d < output.size(); ++d) output[d] = values(static_cast<Eigen::Index>(d)) / sums_(column);
    return output;
  }
  double lse(std::size_t k, std::size_t r) const {
    return largest_(column_of(k, r)) + std::log(sums_(column_of(k, r)));
  }

 private:
  bool values_in_keys() const { return layer_.shape.values_in_keys != 0; }
  Eigen::Index column_of(std::size_t k, std::size_t r) const {
    return static_cast<Eigen::Index>(k * rows_.size() + r);
  }

  void add(std::int64_t first, std::int64_t count) {
    const int dim = layer_.shape.head_dim, value_dim = layer_.shape.value_dim;
    const ScoreTransform transform{layer_.softmax_scale, layer_.logit_softcap};
    std::vector<double> rows_of_keys(static_cast<std::size_t>(count * dim));
    for (std::size_t k = 0; k < keys_.size(); ++k) {
      const KvStorages storages{keys_[k], {}};
      StoredHead(layer_, kv_head_, storages).keys(first, count, rows_of_keys.data());
      scores_into(queries_[k].data(), static_cast<int>(rows_.size()), dim, rows_of_keys.data(), count, transform,
                  weights_.col(column_of(k, 0)).data(), kTile);
      for (std::size_t r = 0; r < rows_.size(); ++r) weigh(column_of(k, r), tokens_[r], first, count);
      if (values_in_keys()) {
        const Eigen::Map<const Matrix, 0, Eigen::OuterStride<>> latents(rows_of_keys.data(), value_dim, count,
                                                                        Eigen::OuterStride<>(dim));
        const auto size = static_cast<Eigen::Index>(rows_.size());
        outputs_[0].middleCols(column_of(k, 0), size).noalias() +=
            latents * weights_.block(0, column_of(k, 0), count, size);
      }
    }
    if (values_in_keys()) return;
    Matrix values(value_dim, count);
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const KvStorages storages{{}, values_[v]};
      StoredHead(layer_, kv_head_, storages).values(first, count, values.data());
      outputs_[v].noalias() += values * weights_.topRows(count);
    }
  }

  /// Scores become weights exp(s - largest), 0 of tokens that the row does not see; earlier sums follow the maximum.
  void weigh(Eigen::Index column, const TokenRange& tokens, std::int64_t first, std::int64_t count) {
    auto scores = weights_.col(column).head(count);
    for (std::int64_t t = 0; t < count; ++t)
      if (first + t < tokens.begin || first + t >= tokens.end) scores(t) = -INFINITY;
    const double largest = std::max(largest_(column), scores.maxCoeff());
    if (largest == -INFINITY) {
      scores.setZero();
      return;
    }
    const double kept = std::exp(largest_(column) - largest);
    if (kept != 1) {
      sums_(column) *= kept;
      for (Matrix& output : outputs_) output.col(column) *= kept;
    }
    largest_(column) = largest;
    scores = (scores.array() - largest).exp().matrix().eval();
    sums_(column) += scores.sum();
  }

  const AuditInput& input_;
  const AttentionLayer& layer_;
  std::span<const KvStorage> keys_, values_;
  std::span<const RowPlace> rows_;
  const std::atomic<bool>* stop_;
  int kv_head_;
  Eigen::Index columns_;
  Matrix weights_;  ///< [tokens of a tile, keys x rows]
  Eigen::VectorXd largest_, sums_;
  std::vector<Matrix> outputs_;  ///< [values][Dv, keys x rows]
  std::vector<TokenRange> tokens_;
  std::vector<std::vector<float>> queries_;  ///< [keys][rows, D]
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
