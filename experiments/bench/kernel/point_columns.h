// The columns that tables of kernels share.
#pragma once

#include <string_view>

#include "experiments/bench/kernel/kernel_study.h"
#include "plots/table.h"

namespace attest {

struct PointColumn {
  Column column;
  double (*value)(const KernelPoint& point);
};

/// batch, length, layers, keep_ratio, io_ratio, io_limit, us, us_low, us_high, replay_low, replay_high, floor_us,
/// floor_ratio, recall_mean, recall_min, lse_error_mean, lse_error_max.
const PointColumn& point_column(std::string_view name);

/// The column for rows with a member `point`.
template <class Row>
ColumnOf<Row> of_point(std::string_view name) {
  const PointColumn& of = point_column(name);
  return {of.column, [value = of.value](const Row& row) { return value(row.point); }};
}

}  // namespace attest
