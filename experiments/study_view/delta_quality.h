// Quality, tokens and bytes of top-delta selection by delta: of the model, of each layer, of each head.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "experiments/study_view/model_study.h"

namespace attest {

/// Statistics of the cells that are not NaN.
struct CellStatistics {
  double sum = 0;
  std::int64_t count = 0;
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();

  void add(double value);
  double mean() const;  ///< NaN without cells, like the other two
  double minimum() const;
  double maximum() const;
};

/// One part of a model at one delta.
struct DeltaQuality {
  CellStatistics recall, lse_error, keep, io, salient;
};

/// The model (no layer), a layer (no head) or a head.
struct DeltaCurve {
  std::optional<int> layer = {}, head = {};
  std::vector<DeltaQuality> points = {};  ///< [settings of DeltaValidation]
};

/// A demand on quality.
struct QualityTarget {
  const char* name;     ///< in the csv, and of its curve
  const char* heading;  ///< in the table and over its panel
  double (*value)(const DeltaQuality&);
  bool at_least;
  double limit;

  bool is_met(const DeltaQuality& quality) const;
};
extern const std::array<QualityTarget, 4> kQualityTargets;

/// One selector whose setting is a delta.
struct DeltaValidation {
  const PooledSelector* selector = nullptr;
  std::vector<std::size_t> settings;  ///< indices into the grid, ascending by delta
  DeltaCurve model;
  std::vector<DeltaCurve> layers, heads;  ///< ascending by layer, then head

  double delta(std::size_t point) const { return selector->group.grid[settings[point]].value; }

  /// Index of the smallest delta of the grid at which a part of the model meets the target; nothing if none does.
  /// Deltas that some samples lack do not count.
  std::optional<std::size_t> smallest_delta(const DeltaCurve& curve, const QualityTarget& target) const;

  /// Whether the target is met there and at all larger deltas: quality need not be monotone in delta.
  bool is_met_from(std::size_t delta, const DeltaCurve& curve, const QualityTarget& target) const;
};

/// The quality of a selector by delta, without the layers `except`.
DeltaValidation delta_validation_of(const ModelStudy& study, const PooledSelector& selector,
                                    const std::set<int>& except);

}  // namespace attest
