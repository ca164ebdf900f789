// Names of curves, lists of layers, and notes on intervals.
#include "experiments/study_view/words.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "plots/code.h"
#include "plots/figure.h"

namespace attest {

std::string display_name(const std::string& label) { return printable(on_one_line(label)); }

std::string apart_from(std::string_view marker, std::string_view kind, const std::string& name) {
  // A name that ends like this gets a prefix, too, so that no two names become the same.
  std::string_view rest = name;
  const std::string prefix = fmt::format("{} ", kind);
  while (rest != marker && rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
  return rest == marker ? prefix + name : name;
}

std::string task_title(const std::string& task) {
  return task.empty() ? "no task" : apart_from("no task", "task", task);
}

std::string curve_name(const std::string& label) { return CurveName(display_name(label)).text(); }

std::string legend_title(const PooledSelector& selector) {
  return display_name(selector.group.label) + (selector.is_oracle() ? " (oracle)" : "");
}

std::string setting_in_words(const StudySelector& group, std::size_t setting) {
  if (group.kind == SettingKind::none) return {};
  return fmt::format("{} {}", name_of(group.kind), display_name(group.setting_labels[setting]));
}

std::string named_setting(const StudySelector& group, std::size_t setting) {
  const std::string at = setting_in_words(group, setting);
  return display_name(group.label) + (at.empty() ? "" : " at " + at);
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

std::string engine_in_words(const std::string& engine, const std::string& kv_cache) {
  return fmt::format("{}, KV cache {}", engine.empty() ? "engine not recorded" : excerpt(engine),
                     kv_cache.empty() ? "of 16 bits" : excerpt(kv_cache));
}

std::string slug(const std::string& text) {
  std::string name;
  for (char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    name += plain ? c : '-';
  }
  return name.substr(0, 80);
}

std::string head_in_words(int layer, int head) { return fmt::format("layer {} head {}", layer, head); }

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string percent_in_words(double share) { return std::isnan(share) ? "?" : fmt::format("{:.3g} %", 100 * share); }

std::string cells_in_words(const std::vector<std::int64_t>& counts) {
  const auto [fewest, most] = std::ranges::minmax(counts);
  return (fewest < most ? fmt::format("{} to ", fewest) : "") + counted(most, "cell");
}

std::string without_dense(const std::set<int>& dense) {
  return dense.empty() ? "" : fmt::format(" Without {}, dense in one of the selectors.", layers_in_words(dense));
}

bool is_drawn(const Interval& interval) {
  return interval.kind == ClusterKind::sample && interval.clusters >= kFewestClusters;
}

std::string interval_note(const Interval& interval) {
  if (is_drawn(interval)) return fmt::format("bands: 95 % (studentized bootstrap over {} samples)", interval.clusters);
  if (interval.kind == ClusterKind::sample && interval.clusters > 1)
    return fmt::format("small dots: the {} samples", interval.clusters);
  return {};
}

}  // namespace attest
