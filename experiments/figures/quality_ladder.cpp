// Table and figure "Ladder of quality": from the mean to the worst cell.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "dumps/base/join.h"
#include "experiments/figures/figures.h"
#include "experiments/figures/ladder_rungs.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/quality_axes.h"
#include "experiments/study_view/quality_curves.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace quality_ladder_figure {

constexpr std::array kMeasures = {kRecallMeasure, kLseErrorMeasure,
                                  LadderMeasure{"mass_recall", "dropped_mass", "dropped mass", Badness::deficit}};

/// One selector at one setting.
struct Point {
  const PooledSelector* selector = nullptr;
  std::size_t setting = 0;
  bool whole_model = false;
  double io = 0, keep = 0;
  std::array<Ladder, kMeasures.size()> ladders{};

  const StudySelector& group() const { return selector->group; }
  std::string label() const { return display_name(group().label); }
  std::string setting_label() const { return display_name(group().setting_labels[setting]); }
  std::string curve() const { return curve_name(group().label) + (whole_model ? " [all layers]" : ""); }
  const Ladder& recall() const { return ladders[0]; }
  /// A setting of the methods' papers, or the only one that there is.
  bool is_of_paper() const { return is_paper_setting(group(), setting) || group().kind == SettingKind::none; }
  std::string named() const { return named_setting(group(), setting); }
};

/// Ascending by bytes read within a selector. Exact attention, which has no badness, is left out.
std::vector<Point> points_of(const ModelStudy& study, const std::set<int>& except, bool whole_model) {
  std::vector<Point> points;
  for (const PooledSelector& selector : study.selectors()) {
    if (selector.group.name == "exact") continue;
    const auto io = study.cells(selector, "io_ratio", except), keep = study.cells(selector, "keep_ratio", except);
    std::vector<Point> own;
    for (std::size_t s = 0; s < io.size(); ++s)
      own.push_back({&selector, s, whole_model, describe(io[s]).mean, describe(keep.at(s)).mean});
    for (std::size_t m = 0; m < kMeasures.size(); ++m) {
      const auto cells = study.cells(selector, kMeasures[m].metric, except);
      for (Point& point : own) point.ladders[m] = ladder(cells.at(point.setting), kMeasures[m].badness);
    }
    std::erase_if(own, [](const Point& point) { return point.recall().count == 0; });
    std::ranges::stable_sort(own, {}, &Point::io);
    points.insert(points.end(), own.begin(), own.end());
  }
  return points;
}

std::string column_of(const LadderMeasure& measure, const Rung& rung) {
  return fmt::format("{}_{}", measure.name, rung.name);
}

Table table_of(const std::vector<Point>& points) {
  std::vector<ColumnOf<Point>> columns = {
      {{kCurveColumn, kText}, [](const Point& p) { return p.curve(); }},
      {{"label", kText}, [](const Point& p) { return p.label(); }},
      {{"selector", kText}, [](const Point& p) { return p.group().name; }},
      {{"setting", kText}, [](const Point& p) { return std::string(name_of(p.group().kind)); }},
      {{"setting_label", kText}, [](const Point& p) { return p.setting_label(); }},
      {{"layers", kText}, [](const Point& p) { return p.whole_model ? "all" : "compared"; }},
      {{"io_ratio"}, [](const Point& p) { return p.io; }},
      {{"keep_ratio"}, [](const Point& p) { return p.keep; }}};
  for (std::size_t m = 0; m < kMeasures.size(); ++m)
    for (const Rung& rung : kRungs)
      columns.push_back(
          {{column_of(kMeasures[m], rung)}, [m, &rung](const Point& p) { return p.ladders[m].*rung.value; }});
  columns.push_back({{"cells"}, [](const Point& p) { return static_cast<double>(p.recall().count); }});
  columns.push_back({{"default"}, [](const Point& p) { return p.is_of_paper() ? 1.0 : 0.0; }});
  return make_table<Point>(points, columns);
}

/// The papers' settings, a row for each measure.
Table papers_table(const std::vector<Point>& points) {
  struct Row {
    const Point* point;
    std::size_t measure;
  };
  std::vector<Row> rows;
  for (std::size_t m = 0; m < kMeasures.size(); ++m)
    for (const Point& point : points)
      if (point.is_of_paper() && !point.whole_model) rows.push_back({&point, m});

  std::vector<ColumnOf<Row>> columns = {
      {{"metric", kText}, [](const Row& r) { return kMeasures[r.measure].title; }},
      {{"label", kText, "selector"}, [](const Row& r) { return r.point->label(); }},
      {{"setting", kText}, [](const Row& r) { return r.point->setting_label(); }},
      {{.name = "io_ratio", .heading = "bytes", .decimals = 3}, [](const Row& r) { return r.point->io; }}};
  for (const Rung& rung : kRungs)
    columns.push_back({{.name = rung.name, .heading = rung.title, .decimals = 5},
                       [&rung](const Row& r) { return r.point->ladders[r.measure].*rung.value; }});
  return make_table<Row>(rows, columns);
}

/// One range for all panels, so that the steps from rung to rung are seen.
void share_range(std::vector<Panel>& panels, const std::vector<Point>& points) {
  double high = 0;
  for (const Point& point : points) high = std::max(high, point.recall().worst);
  constexpr double kMargin = 1.2;
  for (Panel& panel : panels) {
    panel.y.low = panel.y.floor.value_or(0);
    panel.y.high = std::max(high * kMargin, 10 * panel.y.floor.value_or(0.01));
  }
}

std::vector<Panel> panels_of(const ModelStudy& study, const std::vector<Point>& points,
                             const ExperimentOptions& options) {
  double minimum = std::numeric_limits<double>::infinity();
  for (const Point& point : points)
    if (!point.selector->is_oracle() && point.io > 0) minimum = std::min(minimum, point.io);
  std::vector<Panel> panels;
  for (std::size_t i = 0; i < kRungs.size(); ++i) {
    Panel panel{.title = panel_title(i, kRungs[i].title),
                .x = {.label = "bytes read (% of dense)", .factor = 100, .scale = Scale::logarithmic},
                .y = {.label = "recall deficit", .scale = options.linear_axes ? Scale::linear : Scale::logarithmic},
                .series = {},
                .show_x = i + 2 >= kRungs.size(),
                .show_y = i % 2 == 0};
    // Oracles reach down to a handful of tokens, which would fill the panel.
    if (std::isfinite(minimum)) panel.x.low = 100 * minimum / 1.3;
    if (!options.linear_axes) panel.y.floor = kMinDeficit;
    for (const PooledSelector& selector : study.selectors()) {
      if (selector.group.name == "exact") continue;
      panel.series.push_back({.curve = curve_name(selector.group.label),
                              .title = legend_title(selector),
                              .x = "io_ratio",
                              .y = column_of(kMeasures[0], kRungs[i]),
                              .style = study.style(selector),
                              .ring = selector.has_paper() ? "default" : ""});
    }
    panels.push_back(std::move(panel));
  }
  share_range(panels, points);
  return panels;
}

std::vector<Finding> findings_of(const ModelStudy& study, const std::vector<Point>& points) {
  constexpr double kSerious = 0.1;
  const auto place = [](const Point& p) {
    return MapPlace{.metric = "recall", .selector = p.group().label, .setting = p.group().setting_labels[p.setting]};
  };
  std::vector<Finding> findings;
  const auto first_ffd = std::ranges::find_if(points, [](const Point& p) { return p.group().name == "ffd"; });
  std::vector<const Point*> real;
  for (const Point& p : points) {
    if (!p.is_of_paper()) continue;
    if (!p.selector->is_oracle() && p.selector->of_all_samples(p.setting) &&
        (real.empty() || study.have_same_prompts(*real.front()->selector, *p.selector)))
      real.push_back(&p);
    if (first_ffd == points.end() || p.selector != first_ffd->selector) continue;
    const Ladder& l = p.recall();
    const std::string cells = counted(l.count, "cell");
    const std::string tail =
        l.count < kMinCellsP99 ? fmt::format("{:.3g} in the worst of {}", l.worst, cells)
        : l.count < kMinCellsP999
            ? fmt::format("{:.3g} or more in 1 % of {}, {:.3g} in the worst", l.p99, cells, l.worst)
            : fmt::format("{:.3g} or more in 1 % and {:.3g} or more in 0.1 % of {}, {:.3g} in the worst", l.p99, l.p999,
                          cells, l.worst);
    findings.push_back(
        {.text = fmt::format("{}: the recall deficit is {:.3g} in the mean and {:.3g} in the median, {}.", p.named(),
                             l.mean, l.median, tail),
         .severity = l.worst > kSerious ? Severity::warning : Severity::note,
         .number = fmt::format("deficit {:.3g}", l.worst),
         .place = place(p)});
  }
  if (real.size() < 2) return findings;
  const auto worst = [](const Point* p) { return p->recall().worst; };
  const auto [best, last] = std::ranges::minmax(real, {}, worst);
  findings.push_back(
      {.text = fmt::format("At the papers' settings the worst cell's recall deficit is least for {} "
                           "({:.3g}, reading {:.1f} % of the bytes) and largest for {} ({:.3g}, {:.1f} %).",
                           best->named(), worst(best), 100 * best->io, last->named(), worst(last), 100 * last->io),
       .number = fmt::format("deficit {:.3g}", worst(last)),
       .place = place(*last)});
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions& options) {
  const std::set<int> dense = study.dense_layers(labels_of(study));
  std::vector<Point> points = points_of(study, dense, false);
  if (points.empty()) {
    if (dense.empty()) return Unsupported{"needs a selector other than exact", "--selector ffd --selector quest"};
    return Unsupported{"every layer is dense in one of the selectors: run them with dense_layers=0",
                       "--selector ffd --selector quest:dense_layers=0"};
  }
  ExperimentResult result{.findings = findings_of(study, points)};
  std::vector<std::int64_t> counts;
  for (const Point& point : points) counts.push_back(point.recall().count);
  const std::string cells = fmt::format(
      "{}{}; {} (layer, query, head)", study.source(),
      dense.empty() ? "" : fmt::format(", without {}, dense in one of the selectors", layers_in_words(dense)),
      cells_in_words(counts));
  Figure figure{
      .name = "quality_ladder",
      .caption = fmt::format("Recall deficit (1 - recall) against bytes read, from the mean over the quantiles "
                             "to the worst cell; {}. Below 1e-6 a deficit is drawn there. The csv also has "
                             "the LSE error and the dropped mass, and rows over all layers.",
                             cells),
      .ring_title = "settings of the papers",
      .data = table_of({}),
      .columns = 2,
      .panel_height_in = 0.85,
      .panels = panels_of(study, points, options)};
  if (std::ranges::any_of(points, [](const Point& p) { return p.is_of_paper() && !p.whole_model; }))
    result.tables.push_back(
        {"quality_ladder_defaults",
         fmt::format(
             "Ladder of quality at the settings of the methods' papers: mean, median, quantiles and worst cell; {}.",
             cells),
         papers_table(points)});
  if (!dense.empty()) {
    const std::vector<Point> whole = points_of(study, {}, true);
    points.insert(points.end(), whole.begin(), whole.end());
  }
  figure.data = table_of(points);
  result.figures.push_back(std::move(figure));
  return result;
}

}  // namespace quality_ladder_figure

Experiment quality_ladder_experiment() {
  return {.name = "quality_ladder",
          .paper = "Beside figure 'Quality vs. IO budget': from the mean to the worst cell",
          .needs = "a selector other than exact",
          .make = quality_ladder_figure::make};
}

}  // namespace attest
