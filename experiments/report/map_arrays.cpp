// Reduces the cells of every metric to means and worst values by layer, head and setting.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "analysis/metrics/metric.h"
#include "analysis/results/axes.h"
#include "dumps/base/printable.h"
#include "experiments/report/report_parts.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/quality_curves.h"
#include "kernels/base/not_defined.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// The most numbers of single samples: more do not fit on a page of the usual size.
constexpr std::size_t kMaxSampleValues = 4'000'000;

/// Metrics without which a report tells little.
constexpr std::string_view kCore[] = {"recall", "lse_error", "mass_recall", "keep_ratio"};
constexpr std::string_view kUseful[] = {"io_ratio", "output_error", "salient_hit_rate"};

/// Ranks of arrays (MapArray::rank): these, then the order of the metrics.
enum Tier : int { kAlways, kFirst, kSecond, kSamplesCore, kSamples };
int rank_of(Tier tier, int metric) { return tier == kAlways ? 0 : 1000 * tier + metric; }

template <std::size_t n>
bool is_in(const std::string_view (&list)[n], std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

/// Selectors define metrics of their own.
MetricInfo info_of(const std::string& name, const std::vector<PooledSelector>& selectors) {
  if (const Metric* metric = find_metric(name)) return metric->info;
  for (const PooledSelector& selector : selectors) {
    if (find_selector(selector.group.name) == nullptr) continue;
    const auto own = make_selector({selector.group.name, selector.group.name, {}})->own_metrics();
    for (const MetricInfo& info : own)
      if (info.name == name) return info;
  }
  return {.name = name, .unit = "", .definition = "not a metric of this version"};
}

MapMetric map_metric(const std::string& name, const MetricInfo& info, bool has_settings) {
  using Map = MapMetric::Better;
  const Map better = info.better == Better::higher  ? Map::higher
                     : info.better == Better::lower ? Map::lower
                                                    : Map::neither;
  const bool share = better == Map::higher && info.range.max == 1;
  return {.name = printable(name),
          .unit = std::string(info.unit),
          .definition = std::string(info.definition),
          .better = better,
          .has_settings = has_settings,
          .is_share = share,
          // Errors differ by orders of magnitude.
          .logarithmic = share || (better == Map::lower && !info.is_cost)};
}

/// Sum, number and worst of the cells of each place of the map.
class Reduced {
 public:
  Reduced(std::size_t places, bool low_is_worst)
      : sum_(places), count_(places), worst_(places, kNaN), low_(low_is_worst) {}

  void add(std::size_t place, double value) {
    if (std::isnan(value)) return;
    sum_[place] += value;
    if (count_[place]++ == 0 || (low_ ? value < worst_[place] : value > worst_[place])) worst_[place] = value;
  }
  std::vector<double> mean() const {
    std::vector<double> values(sum_.size(), kNaN);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (count_[i] > 0) values[i] = sum_[i] / static_cast<double>(count_[i]);
    return values;
  }
  const std::vector<double>& worst() const { return worst_; }
  bool empty() const {
    return std::ranges::all_of(count_, [](std::int64_t n) { return n == 0; });
  }

 private:
  std::vector<double> sum_;
  std::vector<std::int64_t> count_;
  std::vector<double> worst_;
  bool low_;
};

/// Makes the arrays of one model.
class MapMaker {
 public:
  MapMaker(const ModelStudy& study, ReportData& data) : samples_(samples_of(study)), study_(study), data_(data) {
    model_.name = printable(study.model());
    std::set<int> layers;
    for (const ReportSample& sample : samples_) {
      model_.samples.push_back(sample.name);
      layers.insert(sample.study_sample().layers.begin(), sample.study_sample().layers.end());
      model_.num_heads = std::max(model_.num_heads, static_cast<int>(sample.study_dump().shape.num_query_heads));
    }
    model_.layers.assign(layers.begin(), layers.end());
    for (const PooledSelector& selector : study.selectors()) model_.selectors.push_back(map_selector(selector));
  }

  void make() {
    const std::size_t places = model_.layers.size() * static_cast<std::size_t>(model_.num_heads);
    std::size_t values = 0;
    for (const MapSelector& selector : model_.selectors)
      values += 2 * std::size(kCore) * places * selector.settings.size();
    single_samples_ = samples_.size() > 1 && values * samples_.size() <= kMaxSampleValues;
    const int model = static_cast<int>(data_.models.size());
    for (std::size_t s = 0; s < model_.selectors.size(); ++s)
      for (const std::string& name : metric_names(s)) add_arrays(model, static_cast<int>(s), name);
    for (const std::string& name : score_metric_names()) add_arrays(model, MapArray::kExactScores, name);
    data_.models.push_back(std::move(model_));
  }

 private:
  /// Settings that keep less come first, whatever their kind and unit.
  MapSelector map_selector(const PooledSelector& selector) const {
    const StudySelector& group = selector.group;
    MapSelector made{
        .label = printable(group.label), .kind = std::string(name_of(group.kind)), .settings = {}, .marked = {}};
    std::vector<double> keep;
    for (const auto& cells : study_.cells(selector, "keep_ratio")) keep.push_back(describe(cells).mean);
    keep.resize(group.grid.size(), kNaN);
    std::vector<std::size_t> order(group.grid.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (std::ranges::none_of(keep, [](double k) { return std::isnan(k); }))
      std::ranges::stable_sort(order, {}, [&](std::size_t i) { return keep[i]; });
    for (const std::size_t i : order) {
      if (is_paper_setting(group, i)) made.marked.push_back(static_cast<int>(made.settings.size()));
      made.settings.push_back(printable(group.setting_labels[i]));
    }
    return made;
  }

  std::vector<std::string> in_order(const std::set<std::string>& found) const {
    std::vector<std::string> names;
    for (const Metric& metric : all_metrics())
      if (found.contains(std::string(metric.info.name))) names.emplace_back(metric.info.name);
    for (const std::string& name : found)
      if (find_metric(name) == nullptr) names.push_back(name);
    return names;
  }
  std::vector<std::string> score_metric_names() const {
    std::set<std::string> found;
    for (const ReportSample& s : samples_) found.merge(names(s.file->score_metrics(s.dump, s.sample)));
    return in_order(found);
  }
  std::vector<std::string> metric_names(std::size_t selector) const {
    std::set<std::string> found;
    for (const ReportSample& s : samples_)
      if (const auto index = s.file->find_selector(study_.selectors()[selector].group.label))
        found.merge(names(s.file->metrics(s.dump, s.sample, *index)));
    return in_order(found);
  }
  static std::set<std::string> names(const std::vector<std::string>& list) { return {list.begin(), list.end()}; }

  int metric_index(const std::string& name, bool has_settings) {
    const auto known = std::ranges::find(data_.metrics, printable(name), &MapMetric::name);
    if (known != data_.metrics.end()) return static_cast<int>(known - data_.metrics.begin());
    data_.metrics.push_back(map_metric(name, info_of(name, study_.selectors()), has_settings));
    return static_cast<int>(data_.metrics.size() - 1);
  }

  /// Empty if the sample lacks the metric, or if the metric has other axes than the map.
  std::optional<MetricArray> read_of_heads(const ReportSample& s, int selector, const std::string& name) const {
    std::optional<std::size_t> index;
    if (selector != MapArray::kExactScores) {
      index = s.file->find_selector(study_.selectors()[static_cast<std::size_t>(selector)].group.label);
      if (!index) return std::nullopt;
    }
    const std::vector<std::string> known =
        index ? s.file->metrics(s.dump, s.sample, *index) : s.file->score_metrics(s.dump, s.sample);
    if (std::ranges::count(known, name) == 0) return std::nullopt;
    const MetricAxes axes = s.file->axes(s.dump, s.sample, index, name);
    if (axes != MetricAxes::query_head && axes != MetricAxes::query_head_setting) return std::nullopt;
    return index ? s.file->read(s.dump, s.sample, *index, name) : s.file->read_scores(s.dump, s.sample, name);
  }

  void add_arrays(int model, int selector, const std::string& name) {
    std::vector<std::optional<MetricArray>> arrays;
    bool settings = false, of_heads = false;
    for (const ReportSample& s : samples_) {
      const std::optional<MetricArray>& array = arrays.emplace_back(read_of_heads(s, selector, name));
      if (!array) continue;
      settings |= array->axes == MetricAxes::query_head_setting;
      of_heads = true;
    }
    if (!of_heads) return;
    const int metric = metric_index(name, settings);
    const bool low_is_worst = data_.metrics[static_cast<std::size_t>(metric)].better == MapMetric::Better::higher;
    const std::size_t num_settings =
        settings ? model_.selectors[static_cast<std::size_t>(selector)].settings.size() : std::size_t{1};
    const std::size_t places = model_.layers.size() * static_cast<std::size_t>(model_.num_heads) * num_settings;
    const bool core = is_in(kCore, name);
    MapArray place{.model = model,
                   .selector = selector,
                   .metric = metric,
                   .rank = rank_of(core                                ? kAlways
                                   : !settings || is_in(kUseful, name) ? kFirst
                                                                       : kSecond,
                                   metric),
                   .values = {}};
    Reduced all(places, low_is_worst);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (!arrays[i]) continue;
      Reduced own(single_samples_ ? places : 0, low_is_worst);
      each_cell(samples_[i], selector, *arrays[i], num_settings, [&](std::size_t at, double value) {
        all.add(at, value);
        if (single_samples_) own.add(at, value);
      });
      if (!single_samples_ || own.empty()) continue;
      MapArray single = place;
      single.sample = static_cast<int>(i);
      single.rank = rank_of(core ? kSamplesCore : kSamples, metric);
      push(single, own);
    }
    if (!all.empty()) push(place, all);
  }

  void push(MapArray array, const Reduced& reduced) {
    array.values = reduced.mean();
    array.statistic = MapArray::Statistic::mean;
    data_.arrays.push_back(array);
    array.values = reduced.worst();
    array.statistic = MapArray::Statistic::worst;
    data_.arrays.push_back(std::move(array));
  }

  /// Calls visit(place in [Y, Hq, S], value) for each cell of a sample.
  template <class Visit>
  void each_cell(const ReportSample& at, int selector, const MetricArray& array, std::size_t num_settings,
                 Visit visit) const {
    const bool with_settings = array.axes == MetricAxes::query_head_setting;
    const auto queries = static_cast<std::size_t>(array.shape[1]), heads = static_cast<std::size_t>(array.shape[2]);
    // The place of each of the file's settings in the map, which has those of all files.
    std::vector<std::size_t> setting_at{0};
    if (with_settings) {
      const MapSelector& shown = model_.selectors[static_cast<std::size_t>(selector)];
      const std::string& label = study_.selectors()[static_cast<std::size_t>(selector)].group.label;
      const StudySelector& group = at.file->study().selectors[*at.file->find_selector(label)];
      setting_at.clear();
      for (const std::string& text : group.setting_labels)
        setting_at.push_back(
            static_cast<std::size_t>(std::ranges::find(shown.settings, printable(text)) - shown.settings.begin()));
    }
    const std::vector<int>& layers = at.study_sample().layers;
    std::size_t i = 0;
    for (const int layer : layers) {
      const auto row = static_cast<std::size_t>(std::ranges::lower_bound(model_.layers, layer) - model_.layers.begin());
      for (std::size_t q = 0; q < queries; ++q)
        for (std::size_t h = 0; h < heads; ++h)
          for (const std::size_t setting : setting_at)
            visit((row * static_cast<std::size_t>(model_.num_heads) + h) * num_settings + setting,
                  static_cast<double>(array.values[i++]));
    }
  }

  std::vector<ReportSample> samples_;
  const ModelStudy& study_;
  ReportData& data_;
  MapModel model_;
  bool single_samples_ = false;
};

}  // namespace

int usual_setting(const MapSelector& selector) {
  return selector.marked.empty() ? static_cast<int>(selector.settings.size() / 2) : selector.marked.front();
}

void add_map(const ModelStudy& study, ReportData& data) { MapMaker(study, data).make(); }

}  // namespace attest
