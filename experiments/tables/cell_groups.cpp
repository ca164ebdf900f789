// Groups of cells by layer, head, task, length and sample.
#include "experiments/tables/cell_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "analysis/statistics/aggregate.h"
#include "experiments/study_view/model_study.h"

namespace attest {
namespace {

constexpr float kUndefined = std::numeric_limits<float>::quiet_NaN();

GroupKey key_of(const SampleCells& sample, std::size_t y, std::int64_t head, std::span<const Grouping> by) {
  GroupKey key;
  for (const Grouping grouping : by) switch (grouping) {
      case Grouping::layer:
        key.emplace_back(std::int64_t{sample.layers[y]});
        break;
      case Grouping::head:
        key.emplace_back(head);
        break;
      case Grouping::task:
        key.emplace_back(sample.task);
        break;
      case Grouping::length:
        key.emplace_back(rounded_length(sample.num_tokens));
        break;
      case Grouping::sample:
        key.emplace_back(sample.sample);
        break;
    }
  return key;
}

void append_defined(std::span<const float> cells, std::size_t first, std::size_t step, std::vector<float>& to) {
  for (std::size_t i = first; i < cells.size(); i += step)
    if (!std::isnan(cells[i])) to.push_back(cells[i]);
}

}  // namespace

std::map<GroupKey, std::vector<float>> split_cells(std::span<const SampleCells> samples, std::span<const Grouping> by) {
  const bool by_head = std::ranges::count(by, Grouping::head) > 0;
  std::map<GroupKey, std::vector<float>> groups;
  for (const SampleCells& sample : samples)
    for (std::size_t y = 0; y < sample.layers.size(); ++y) {
      const std::int64_t heads = by_head ? sample.num_heads : 1;
      for (std::int64_t head = 0; head < heads; ++head)
        append_defined(sample.layer(y), static_cast<std::size_t>(head), static_cast<std::size_t>(heads),
                       groups[key_of(sample, y, head, by)]);
    }
  return groups;
}

std::vector<SampleCells> score_cells_at(std::span<const SampleCells> scores, std::span<const SampleCells> like) {
  std::map<std::tuple<int, std::string_view, int>, std::span<const float>> found;
  for (const SampleCells& s : scores)
    for (std::size_t y = 0; y < s.layers.size(); ++y) found[{s.dump, s.sample, s.layers[y]}] = s.layer(y);
  std::vector<SampleCells> placed;
  for (const SampleCells& s : like) {
    SampleCells& cells = placed.emplace_back(s);
    for (std::size_t y = 0; y < s.layers.size(); ++y) {
      const std::size_t size = s.layer(y).size();
      const auto to = cells.values.begin() + static_cast<std::ptrdiff_t>(y * size);
      const auto at = found.find({s.dump, s.sample, s.layers[y]});
      if (at != found.end() && at->second.size() == size)
        std::ranges::copy(at->second, to);
      else
        std::fill_n(to, size, kUndefined);
    }
  }
  return placed;
}

std::vector<SampleCells> retrieval_cells(std::span<const SampleCells> recall, std::span<const SampleCells> span_mass) {
  std::vector<SampleCells> chosen(recall.begin(), recall.end());
  for (std::size_t s = 0; s < chosen.size(); ++s)
    for (std::size_t i = 0; i < chosen[s].values.size(); ++i)
      if (!(span_mass[s].values[i] >= kRetrievalMass)) chosen[s].values[i] = kUndefined;
  return chosen;
}

}  // namespace attest
