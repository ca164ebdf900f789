// Names, order and lengths of the axes of each kind of metric.
#include "analysis/results/axes.h"

#include <algorithm>

namespace attest {
namespace {

struct Axis {
  std::string_view name;
  std::int64_t AxisSizes::*size;
};
constexpr Axis kLayer{"layer", &AxisSizes::layers}, kQuery{"query", &AxisSizes::queries},
    kHead{"head", &AxisSizes::heads}, kSetting{"setting", &AxisSizes::settings}, kLambda{"lambda", &AxisSizes::lambdas},
    kToken{"token", &AxisSizes::tokens};

struct Layout {
  MetricAxes axes;
  std::vector<Axis> list;
  std::vector<std::string_view> names;

  Layout(MetricAxes a, std::vector<Axis> l) : axes(a), list(std::move(l)) {
    for (const Axis& axis : list) names.push_back(axis.name);
  }
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{{MetricAxes::query_head, {kLayer, kQuery, kHead}},
                                       {MetricAxes::query_head_setting, {kLayer, kQuery, kHead, kSetting}},
                                       {MetricAxes::query_head_lambda, {kLayer, kQuery, kHead, kLambda}},
                                       {MetricAxes::query_setting, {kLayer, kQuery, kSetting}},
                                       {MetricAxes::query_setting_token, {kLayer, kQuery, kSetting, kToken}}};
  return all;
}

const Layout& layout_of(MetricAxes axes) { return *std::ranges::find(layouts(), axes, &Layout::axes); }

}  // namespace

AxisSizes axis_sizes(const Study& study, const StudyDump& dump, const StudySample& sample,
                     const StudySelector* selector) {
  return {.layers = static_cast<std::int64_t>(sample.layers.size()),
          .queries = static_cast<std::int64_t>(sample.query_positions.size()),
          .heads = dump.shape.num_query_heads,
          .settings = selector != nullptr ? static_cast<std::int64_t>(selector->grid.size()) : 0,
          .lambdas = static_cast<std::int64_t>(study.lambdas.size()),
          .tokens = static_cast<std::int64_t>(sample.span_tokens.size())};
}

std::span<const std::string_view> axis_names(MetricAxes axes) { return layout_of(axes).names; }

std::vector<std::int64_t> shape_of(MetricAxes axes, const AxisSizes& sizes) {
  std::vector<std::int64_t> shape;
  for (const Axis& axis : layout_of(axes).list) shape.push_back(sizes.*axis.size);
  return shape;
}

std::optional<MetricAxes> axes_numbered(int number) {
  for (const Layout& layout : layouts())
    if (static_cast<int>(layout.axes) == number) return layout.axes;
  return std::nullopt;
}

std::optional<MetricAxes> axes_named(std::span<const std::string> names) {
  for (const Layout& layout : layouts())
    if (std::ranges::equal(layout.names, names)) return layout.axes;
  return std::nullopt;
}

}  // namespace attest
