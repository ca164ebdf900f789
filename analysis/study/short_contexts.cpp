// Collects Selector::short_context() over all queries and settings into notices.
#include "analysis/study/short_contexts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "dumps/base/join.h"

namespace attest {
namespace {

/// The queries that one statement applies to at one setting: their number and their longest context.
struct Affected {
  std::size_t queries = 0;
  std::int64_t longest = 0;
  bool operator==(const Affected&) const = default;
};

std::vector<std::int64_t> contexts(const Study& study) {
  std::vector<std::int64_t> lengths;
  for (const StudyDump& dump : study.dumps)
    for (const StudySample& sample : dump.samples)
      for (const std::int64_t position : sample.query_positions) lengths.push_back(position + 1);
  return lengths;
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

}  // namespace

std::vector<std::string> short_context_notices(const Study& study) {
  const std::vector<std::int64_t> lengths = contexts(study);
  std::vector<std::string> notices;
  for (const StudySelector& chosen : study.selectors) {
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
          "selector '{}' {}{} for {}", chosen.label, statement.what,
          everywhere ? std::string() : fmt::format(" at {} {}", name_of(chosen.kind), join(statement.settings, ", ")),
          which_queries(statement.entry, lengths.size())));
    }
  }
  return notices;
}

}  // namespace attest
