// Names, headings and values of shared columns.
#include "experiments/bench/kernel/point_columns.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace attest {

const PointColumn& point_column(std::string_view name) {
  using P = KernelPoint;
  static const std::vector<PointColumn> list = {
      {{.name = "batch", .decimals = 0}, [](const P& p) { return static_cast<double>(p.batch); }},
      {{.name = "length", .decimals = 0}, [](const P& p) { return static_cast<double>(p.length); }},
      {{.name = "layers", .decimals = 0}, [](const P& p) { return static_cast<double>(p.measurements); }},
      {{.name = "keep_ratio", .heading = "tokens kept"}, [](const P& p) { return p.keep; }},
      {{.name = "io_ratio", .heading = "io"}, [](const P& p) { return p.io; }},
      {{.name = "io_limit", .heading = "1/io", .decimals = 2}, [](const P& p) { return p.io_limit(); }},
      {{.name = "us", .heading = "us (mean of medians)", .decimals = 2}, [](const P& p) { return p.us; }},
      {{.name = "us_low", .heading = "least layer", .decimals = 2}, [](const P& p) { return p.us_low; }},
      {{.name = "us_high", .heading = "largest layer", .decimals = 2}, [](const P& p) { return p.us_high; }},
      {{.name = "replay_low", .heading = "least replay", .decimals = 2}, [](const P& p) { return p.replay_low; }},
      {{.name = "replay_high", .heading = "largest replay", .decimals = 2}, [](const P& p) { return p.replay_high; }},
      {{.name = "floor_us", .heading = "floor us", .decimals = 2}, [](const P& p) { return p.floor_us; }},
      {{.name = "floor_ratio", .heading = "time / floor", .decimals = 2}, [](const P& p) { return p.floor_ratio(); }},
      {{.name = "recall_mean", .heading = "recall", .decimals = 5}, [](const P& p) { return p.recall_mean; }},
      {{.name = "recall_min", .heading = "lowest", .decimals = 4}, [](const P& p) { return p.recall_min; }},
      {{.name = "lse_error_mean", .heading = "LSE error, nats", .decimals = 4},
       [](const P& p) { return p.lse_error_mean; }},
      {{.name = "lse_error_max", .heading = "largest", .decimals = 4}, [](const P& p) { return p.lse_error_max; }}};
  const auto found = std::ranges::find_if(list, [&](const PointColumn& c) { return c.column.name == name; });
  if (found == list.end()) throw std::logic_error("no column " + std::string(name));
  return *found;
}

}  // namespace attest
