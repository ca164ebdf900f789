// Quality, bytes and tokens of each selector at each setting: the curves of several experiments.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/statistics/aggregate.h"
#include "experiments/study_view/model_study.h"
#include "plots/table.h"

namespace attest {

/// One setting of one selector, pooled over all its cells.
struct QualityPoint {
  std::size_t setting = 0;  ///< index in the grid
  std::string setting_label;
  Interval io, keep, recall, lse_error;
  double recall_min = 0, recall_p5 = 0, lse_error_max = 0, mass_recall_min = 0;
  std::int64_t cells = 0;
  bool is_paper_setting = false;  ///< one of the settings that the methods' papers use
  bool is_compared = true;        ///< its cells are of the same prompts as those of the curve's other such points
};

struct QualityCurve {
  const PooledSelector* selector = nullptr;
  std::string name;                       ///< curve_name() of the label
  std::string sample = {};                ///< its title; empty: all samples
  bool whole_model = false;               ///< includes the layers that are dense in some selector
  std::vector<QualityPoint> points = {};  ///< ascending by tokens kept

  void name_whole_model();  ///< sets whole_model, and says so in the name
};

/// A row of the table of a figure of curves, from which those of figures derive.
struct QualityRow {
  const QualityCurve* curve = nullptr;
  const QualityPoint* point = nullptr;

  const StudySelector& group() const { return curve->selector->group; }
};

/// The columns that say whose row it is: curve, label, selector, setting, setting_label, layers.
std::vector<ColumnOf<QualityRow>> quality_columns();

/// A table of these columns and of `more`.
template <class Row>
Table curves_table(const std::vector<Row>& rows, const std::vector<ColumnOf<Row>>& more) {
  std::vector<ColumnOf<Row>> columns;
  for (const ColumnOf<QualityRow>& column : quality_columns()) columns.push_back({column.column, column.cell});
  columns.insert(columns.end(), more.begin(), more.end());
  return make_table<Row>(rows, columns);
}

/// The options for curves without intervals: their bounds are NaN.
inline constexpr BootstrapOptions kNoIntervals{.resamples = 0};

/// The curve of a selector, without the layers `except`, and of `samples` alone where there are any. It has intervals
/// of recall and LSE error.
QualityCurve quality_curve(const ModelStudy& study, const PooledSelector& selector, const std::set<int>& except,
                           const std::set<SampleKey>& samples = {}, const BootstrapOptions& intervals = {});

/// One curve per selector of the study that has cells, exact ones last, without the layers `except`.
std::vector<QualityCurve> quality_curves(const ModelStudy& study, const std::set<int>& except);

/// A function that gives a number of a point.
using ValueOf = double (*)(const QualityPoint&);

/// The value on a curve where its `x_of` is `x`, interpolated linearly; nothing outside of the curve's range. Points
/// that are not compared do not count, here and in shared_io().
std::optional<double> value_at(const QualityCurve& curve, double x, ValueOf x_of, ValueOf value);
/// The value on a curve at the io ratio `io`.
std::optional<double> at_io(const QualityCurve& curve, double io, ValueOf value);

/// An io ratio that both curves reach: a quarter if possible, where the paper compares methods, else that of a
/// paper's setting of `a`, else the middle of the common range.
std::optional<double> shared_io(const QualityCurve& a, const QualityCurve& b);

/// The first curve of the selector `name` that has points. Null if there is none.
const QualityCurve* first_of(const std::vector<QualityCurve>& curves, std::string_view name);

}  // namespace attest
