// Names of curves, lists of layers, and notes on intervals.
#include "experiments/paper/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace attest {

std::string display_name(const std::string& label) {
  std::string name = label;
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < 0x20; }, ' ');
  return name;
}

std::string curve_name(const std::string& label) {
  std::string name = display_name(label);
  std::ranges::replace(name, ',', ';');
  std::ranges::replace(name, '"', '\'');
  return name;
}

std::string legend_title(const PooledSelector& selector) {
  return display_name(selector.group.label) + (selector.is_oracle() ? " (oracle)" : "");
}

std::string layers_in_words(const std::set<int>& layers) {
  std::vector<std::string> runs;
  for (auto first = layers.begin(); first != layers.end();) {
    auto last = first;
    while (std::next(last) != layers.end() && *std::next(last) == *last + 1) ++last;
    if (*last >= *first + 2) {
      runs.push_back(fmt::format("{}-{}", *first, *last));
    } else {
      for (auto layer = first; layer != std::next(last); ++layer) runs.push_back(fmt::format("{}", *layer));
    }
    first = std::next(last);
  }
  std::string text = layers.size() == 1 ? "layer " : "layers ";
  for (std::size_t i = 0; i < runs.size(); ++i) text += (i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ") + runs[i];
  return text;
}

std::string counted(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

bool is_drawn(const Interval& interval) {
  return interval.kind == ClusterKind::sample && interval.clusters >= kFewestSamplesOfABand;
}

std::string interval_note(const Interval& interval) {
  if (is_drawn(interval))
    return fmt::format("bands: approximate 95 % (cluster bootstrap over {} samples)", interval.clusters);
  if (interval.kind == ClusterKind::sample && interval.clusters > 1)
    return fmt::format("small dots: the {} samples", interval.clusters);
  return {};
}

}  // namespace attest
