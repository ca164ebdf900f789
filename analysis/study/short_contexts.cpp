// Collects Selector::short_context() over all queries and settings into notices.
#include "analysis/study/short_contexts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "dumps/base/join.h"

namespace attest {
namespace {

/// The queries that one statement applies to at one setting: their number and their longest context.
struct Affected {
  std::size_t queries = 0;
  std::int64_t longest = 0;
  bool operator==(const Affected&) const = default;
};

/// Layers of one sliding window, and the keys that each query sees in them.
struct Contexts {
  std::set<std::pair<std::size_t, int>> layers;  ///< dump and number
  std::vector<std::int64_t> lengths;
};

/// By window; 0 also where no query of the sample has more keys before it than the window.
std::map<std::int64_t, Contexts> contexts(const Study& study, const WindowOf& window_of) {
  std::map<std::int64_t, Contexts> found;
  for (std::size_t d = 0; d < study.dumps.size(); ++d)
    for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s) {
      const StudySample& sample = study.dumps[d].samples[s];
      const std::int64_t longest = std::ranges::max(sample.query_positions) + 1;
      std::set<std::int64_t> windows;
      for (const int layer : sample.layers) {
        const std::int64_t own = window_of({d, s, layer}), window = own < longest ? own : 0;
        found[window].layers.emplace(d, layer);
        if (!windows.insert(window).second) continue;
        for (const std::int64_t position : sample.query_positions)
          found[window].lengths.push_back(window == 0 ? position + 1 : std::min(position + 1, window));
      }
    }
  return found;
}

std::map<std::string_view, Affected> affected(const Selector& selector, const Setting& setting,
                                              std::span<const std::int64_t> lengths) {
  std::map<std::string_view, Affected> found;
  for (const std::int64_t length : lengths) {
    const std::string_view what = selector.short_context(selector.resolve(setting, length), length);
    if (what.empty()) continue;
    Affected& entry = found[what];
    ++entry.queries;
    entry.longest = std::max(entry.longest, length);
  }
  return found;
}

std::string which_queries(const Affected& entry, std::size_t all) {
  const std::string number = entry.queries == all ? (all == 1 ? "the one query" : fmt::format("all {} queries", all))
                                                  : fmt::format("{} of {} queries", entry.queries, all);
  return fmt::format("{}, which {} {} keys at most", number, entry.queries == 1 ? "sees" : "see", entry.longest);
}

/// Adds the sentences about layers of one window. `which_layers`: " in 3 of 6 layers", empty: all.
void add_notices(const StudySelector& chosen, std::span<const std::int64_t> lengths, const std::string& which_layers,
                 std::vector<std::string>& notices) {
  // Equal statements about several settings are merged into one.
  struct Statement {
    std::string_view what;
    Affected entry;
    std::vector<std::string> settings;
  };
  std::vector<Statement> statements;
  std::size_t settings = 0;
  for (std::size_t i = 0; i < chosen.grid.size(); ++i) {
    if (chosen.grid[i] == Setting{100, true}) continue;
    ++settings;
    for (const auto& [what, entry] : affected(*chosen.selector, chosen.grid[i], lengths)) {
      const auto same = std::find_if(statements.begin(), statements.end(),
                                     [&](const Statement& x) { return x.what == what && x.entry == entry; });
      Statement& statement =
          same != statements.end() ? *same : statements.emplace_back(what, entry, std::vector<std::string>{});
      statement.settings.push_back(chosen.setting_labels[i]);
    }
  }
  for (const Statement& statement : statements) {
    const bool everywhere = statement.settings.size() == settings;
    notices.push_back(fmt::format(
        "selector '{}' {}{}{} for {}", chosen.label, statement.what,
        everywhere ? std::string() : fmt::format(" at {} {}", name_of(chosen.kind), join(statement.settings, ", ")),
        which_layers, which_queries(statement.entry, lengths.size())));
  }
}

}  // namespace

std::vector<std::string> short_context_notices(const Study& study, const WindowOf& window_of) {
  const std::map<std::int64_t, Contexts> by_window = contexts(study, window_of);
  std::set<std::pair<std::size_t, int>> layers;
  for (const auto& [window, of_window] : by_window) layers.insert(of_window.layers.begin(), of_window.layers.end());
  std::vector<std::string> notices;
  for (const StudySelector& chosen : study.selectors)
    for (const auto& [window, of_window] : by_window)
      add_notices(chosen, of_window.lengths,
                  by_window.size() == 1 ? std::string()
                                        : fmt::format(" in {} of {} layers", of_window.layers.size(), layers.size()),
                  notices);
  return notices;
}

}  // namespace attest
