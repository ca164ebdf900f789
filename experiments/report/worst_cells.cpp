// Finds the worst cells of each selector.
#include "experiments/report/worst_cells.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "dumps/base/printable.h"
#include "experiments/report/query_tokens.h"
#include "experiments/report/report_parts.h"
#include "experiments/report/report_samples.h"

namespace attest {
namespace {

/// Losses below this are rounding of float32.
constexpr double kNoLoss = 1e-6;

struct Place {
  std::size_t sample = 0, cell = 0;  ///< cell: index in [Y, N, Hq]
  int setting = 0;                   ///< in the map
  auto operator<=>(const Place&) const = default;
};
struct Candidate {
  double loss = 0;
  Place place;
  bool operator<(const Candidate& other) const {
    return std::tie(other.loss, place) < std::tie(loss, other.place);  // larger losses first, then by place
  }
};

/// The metrics of one sample by which cells are chosen, and which are shown with them.
struct SampleArrays {
  std::array<std::optional<MetricArray>, kCellMetrics.size()> metrics;
  std::optional<MetricArray> keep_ratio;
  std::vector<std::size_t> file_setting;  ///< of each setting of the map; the number of settings if the file lacks it
  std::size_t num_settings = 1;

  float at(const std::optional<MetricArray>& array, std::size_t cell, int setting) const {
    const std::size_t s = file_setting[static_cast<std::size_t>(setting)];
    return array && s < num_settings ? array->values[cell * num_settings + s] : std::nanf("");
  }
};

SampleArrays arrays_of(const ReportSample& sample, const std::string& label, const MapSelector& shown) {
  SampleArrays arrays;
  const auto selector = sample.file->find_selector(label);
  if (!selector) return arrays;
  const auto read = [&](const char* metric) {
    std::optional<MetricArray> array = sample.read(label, metric);
    if (array && array->axes != MetricAxes::query_head_setting) array.reset();
    return array;
  };
  for (std::size_t m = 0; m < kCellMetrics.size(); ++m) arrays.metrics[m] = read(kCellMetrics[m].name);
  arrays.keep_ratio = read("keep_ratio");
  const std::vector<std::string>& labels = sample.file->study().selectors[*selector].setting_labels;
  arrays.num_settings = labels.size();
  for (const std::string& text : shown.settings)
    arrays.file_setting.push_back(static_cast<std::size_t>(
        std::ranges::find(labels, text, [](const std::string& l) { return printable(l); }) - labels.begin()));
  return arrays;
}

double loss_of(std::size_t metric, float value) {
  return kCellMetrics[metric].is_share ? 1 - static_cast<double>(value) : static_cast<double>(value);
}

/// Keeps the worst `maximum`, whatever is added.
class WorstOf {
 public:
  explicit WorstOf(std::size_t maximum) : max_(maximum) {}
  void add(const Candidate& candidate) {
    if (!(candidate.loss > min_)) return;
    candidates_.push_back(candidate);
    if (candidates_.size() >= 4 * max_ + 64) prune();
  }
  std::vector<Candidate> finish() {
    prune();
    return std::move(candidates_);
  }

 private:
  void prune() {
    std::sort(candidates_.begin(), candidates_.end());
    if (candidates_.size() <= max_) return;
    candidates_.resize(max_);
    if (max_ > 0) min_ = std::nextafter(candidates_.back().loss, 0.0);  // equal losses are told apart by place
  }
  std::size_t max_;
  double min_ = kNoLoss;
  std::vector<Candidate> candidates_;
};

class CellFinder {
 public:
  CellFinder(const ModelStudy& study, std::size_t model, const WorstCellOptions& options, ReportData& data)
      : samples_(samples_of(study)), study_(study), model_(model), options_(options), data_(data) {}

  void find(std::size_t selector, QueryTokens& tokens) {
    const MapSelector& shown = data_.models[model_].selectors[selector];
    const std::string& label = study_.selectors()[selector].group.label;
    std::vector<int> settings = shown.marked;
    if (settings.empty()) settings = {usual_setting(shown)};

    std::vector<WorstOf> worst(kCellMetrics.size(), WorstOf(options_.maximum));
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const SampleArrays arrays = arrays_of(samples_[i], label, shown);
      for (std::size_t m = 0; m < worst.size(); ++m) {
        if (!arrays.metrics[m]) continue;
        const std::size_t cells = arrays.metrics[m]->values.size() / arrays.num_settings;
        for (std::size_t cell = 0; cell < cells; ++cell)
          for (const int setting : settings)
            worst[m].add({loss_of(m, arrays.at(arrays.metrics[m], cell, setting)), {i, cell, setting}});
      }
    }
    std::set<Place> places;
    for (WorstOf& of_metric : worst)
      for (const Candidate& candidate : of_metric.finish()) places.insert(candidate.place);
    SampleArrays arrays;
    std::size_t read = samples_.size();
    for (const Place& place : places) {
      if (read != place.sample) arrays = arrays_of(samples_[read = place.sample], label, shown);
      data_.cells.push_back(cell_at(place, selector, arrays, tokens));
    }
  }

 private:
  WorstCell cell_at(const Place& place, std::size_t selector, const SampleArrays& arrays, QueryTokens& tokens) const {
    const ReportSample& sample = samples_[place.sample];
    const StudySample& study_sample = sample.study_sample();
    const auto heads = static_cast<std::size_t>(sample.study_dump().shape.num_query_heads);
    const std::size_t queries = study_sample.query_positions.size();
    WorstCell cell{.model = static_cast<int>(model_),
                   .selector = static_cast<int>(selector),
                   .setting = place.setting,
                   .sample = static_cast<int>(place.sample),
                   .layer = study_sample.layers[place.cell / heads / queries],
                   .head = static_cast<int>(place.cell % heads),
                   .query_position = study_sample.query_positions[place.cell / heads % queries],
                   .tokens = {}};
    for (std::size_t m = 0; m < kCellMetrics.size(); ++m)
      cell.metrics[m] = arrays.at(arrays.metrics[m], place.cell, place.setting);
    float minimum = std::nanf("");
    for (int s = 0; s < static_cast<int>(arrays.file_setting.size()); ++s) {
      if (!(static_cast<double>(arrays.at(arrays.metrics[kRecallOfCell], place.cell, s)) >= data_.enough_recall))
        continue;
      const float keep = arrays.at(arrays.keep_ratio, place.cell, s);
      if (cell.enough >= 0 && !(keep < minimum)) continue;
      cell.enough = s;
      minimum = keep;
    }
    if (options_.tokens) std::tie(cell.tokens, cell.tokens_before) = tokens.around(sample, cell.query_position);
    return cell;
  }

  std::vector<ReportSample> samples_;
  const ModelStudy& study_;
  std::size_t model_;
  const WorstCellOptions& options_;
  ReportData& data_;
};

}  // namespace

void add_worst_cells(const ModelStudy& study, std::size_t model, const WorstCellOptions& options, int threads,
                     ReportData& data) {
  CellFinder finder(study, model, options, data);
  QueryTokens tokens(threads);
  for (std::size_t s = 0; s < data.models[model].selectors.size(); ++s) finder.find(s, tokens);
  if (options.tokens && !tokens.problem().empty()) data.cells_note += " " + tokens.problem();
}

}  // namespace attest
