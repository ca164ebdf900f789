// Scores of a row's tokens, then their values, a tile of tokens at a time.
#include "analysis/audit/row_attention.h"

#include <algorithm>
#include <cmath>

#include "analysis/audit/kv_storage.h"
#include "kernels/attention/scores.h"
#include "kernels/attention/sinks.h"
#include "kernels/base/row_matrix.h"

namespace attest {
namespace {

constexpr std::int64_t kMaxScores = 8 << 20;  ///< of a batch of rows: 64 MiB

/// A batch of rows over the tokens that any of them attends to.
class RowsTogether {
 public:
  RowsTogether(const StoredHead& head, std::span<const RowModel> rows, const ScoreTransform& transform,
               std::int64_t value_shift, const std::atomic<bool>* stop)
      : head_(head), rows_(rows), transform_(transform), value_shift_(value_shift), stop_(stop) {
    begin_ = std::ranges::min(rows, {}, [](const RowModel& row) { return row.tokens.begin; }).tokens.begin;
    end_ = std::ranges::max(rows, {}, [](const RowModel& row) { return row.tokens.end; }).tokens.end;
  }

  void run(std::vector<RowPrediction>& out) {
    score();
    const std::size_t first = out.size();
    for (std::size_t r = 0; r < rows_.size(); ++r) out.push_back(weigh(r));
    add_values(std::span(out).subspan(first));
    for (RowPrediction& row : std::span(out).subspan(first)) finish(row);
  }

 private:
  void score() {
    const int dim = head_.layer().shape.head_dim;
    std::vector<float> queries;
    for (const RowModel& row : rows_) queries.insert(queries.end(), row.query.begin(), row.query.end());
    std::vector<double> keys(static_cast<std::size_t>(kTile * dim));
    scores_.resize(static_cast<std::int64_t>(rows_.size()), end_ - begin_);
    for_tiles(begin_, end_, stop_, [&](std::int64_t first, std::int64_t count) {
      head_.keys(first, count, keys.data());
      scores_into(queries.data(), static_cast<int>(rows_.size()), dim, keys.data(), count, transform_,
                  scores_.row(0) + first - begin_, scores_.stride());
    });
  }

  /// The row's scores, of its tokens alone; they become probabilities.
  std::span<double> of_row(std::size_t r) {
    const TokenRange& tokens = rows_[r].tokens;
    return std::span(scores_.row(static_cast<std::int64_t>(r)) + tokens.begin - begin_,
                     static_cast<std::size_t>(tokens.end - tokens.begin));
  }

  RowPrediction weigh(std::size_t r) {
    const std::span<double> row = of_row(r);
    const double largest = *std::ranges::max_element(row);
    RowPrediction out;
    double sum = 0;
    for (const double s : row) {
      out.rounding.peak = std::max(out.rounding.peak, std::fabs(s));
      sum += std::exp(s - largest);
    }
    out.lse = largest + std::log(sum);
    if (rows_[r].sink) out.lse = lse_with_sink(out.lse, *rows_[r].sink);
    const double matters = std::exp(largest - out.lse) * kKeyThatMatters;
    std::vector<float> key(static_cast<std::size_t>(head_.layer().shape.head_dim));
    for (std::size_t j = 0; j < row.size(); ++j) {
      row[j] = std::exp(row[j] - out.lse);
      if (row[j] < matters) continue;
      head_.dumped_keys(rows_[r].tokens.begin + static_cast<std::int64_t>(j), 1, key.data());
      out.rounding.product_noise =
          std::max(out.rounding.product_noise,
                   transform_.scale * product_norm(rows_[r].query.data(), key.data(), static_cast<int>(key.size())));
    }
    out.output.assign(static_cast<std::size_t>(head_.layer().shape.value_dim), 0.0);
    return out;
  }

  /// rounding.size becomes the sum of squares of the noise.
  void add_values(std::span<RowPrediction> out) {
    const std::int64_t dim = head_.layer().shape.value_dim, tokens = head_.layer().num_tokens;
    std::vector<double> values(static_cast<std::size_t>(kTile * dim));
    for_tiles(begin_, end_, stop_, [&](std::int64_t first, std::int64_t count) {
      load_values(first, count, tokens, values);
      for (std::int64_t t = 0; t < count; ++t) {
        const double* value = values.data() + t * dim;
        double squares = 0;
        for (std::int64_t d = 0; d < dim; ++d) squares += value[d] * value[d];
        for (std::size_t r = 0; r < rows_.size(); ++r) {
          const TokenRange& range = rows_[r].tokens;
          if (first + t < range.begin || first + t >= range.end) continue;
          const double p = of_row(r)[static_cast<std::size_t>(first + t - range.begin)];
          for (std::int64_t d = 0; d < dim; ++d) out[r].output[static_cast<std::size_t>(d)] += p * value[d];
          out[r].rounding.size += p * p * squares;
        }
      }
    });
  }

  void load_values(std::int64_t first, std::int64_t count, std::int64_t tokens, std::vector<double>& values) const {
    const std::int64_t dim = head_.layer().shape.value_dim;
    if (value_shift_ == 0) return head_.values(first, count, values.data());
    for (std::int64_t t = 0; t < count; ++t)
      head_.values(std::clamp<std::int64_t>(first + t + value_shift_, 0, tokens - 1), 1, values.data() + t * dim);
  }

  static void finish(RowPrediction& out) {
    double squares = 0;
    for (const double x : out.output) squares += x * x;
    out.rounding.size = std::sqrt(std::max(out.rounding.size, squares));
  }

  const StoredHead& head_;
  std::span<const RowModel> rows_;
  ScoreTransform transform_;
  std::int64_t value_shift_, begin_ = 0, end_ = 0;
  const std::atomic<bool>* stop_;
  RowMatrix<double> scores_;
};

}  // namespace

std::vector<RowPrediction> attend_rows(const StoredHead& head, std::span<const RowModel> rows,
                                       const ScoreTransform& transform, std::int64_t value_shift,
                                       const std::atomic<bool>* stop) {
  std::vector<RowPrediction> out;
  out.reserve(rows.size());
  const auto at_once = static_cast<std::size_t>(std::max<std::int64_t>(1, kMaxScores / head.layer().num_tokens));
  for (std::size_t begin = 0; begin < rows.size(); begin += at_once)
    RowsTogether(head, rows.subspan(begin, std::min(at_once, rows.size() - begin)), transform, value_shift, stop)
        .run(out);
  return out;
}

}  // namespace attest
