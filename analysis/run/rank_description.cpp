// The description as JSON. Units are ranges of indices into the plan.
#include "analysis/run/rank_description.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "analysis/results/study_difference.h"
#include "dumps/base/error.h"

namespace attest {

using nlohmann::json;

std::string RankDescription::text(const StudyPlan& plan) const {
  const std::set<UnitKey> wanted(units.begin(), units.end());
  json ranges = json::array();
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    if (!wanted.contains(plan.units[i])) continue;
    if (!ranges.empty() && ranges.back()[1] == i)
      ranges.back()[1] = i + 1;
    else
      ranges.push_back({i, i + 1});
  }
  return json{{"configuration", json::parse(configuration)},
              {"skip_bad_layers", skip_bad_layers},
              {"send_results", send_results},
              {"token", token},
              {"units", ranges}}
      .dump();
}

RankDescription read_description(const std::string& text, const StudyPlan& plan, const std::string& configuration,
                                 bool skip_bad_layers, int rank) {
  const json described = json::parse(text);
  const auto refuse = [&](const std::string& difference) {
    throw UsageError(
        fmt::format("rank {} was started with other options or inputs than rank 0, which has {}", rank, difference));
  };
  if (const std::string difference = study_difference(described.at("configuration"), json::parse(configuration));
      !difference.empty())
    refuse(difference);
  RankDescription found{.configuration = configuration,
                        .skip_bad_layers = described.at("skip_bad_layers"),
                        .send_results = described.at("send_results"),
                        .token = described.at("token"),
                        .units = {}};
  if (found.skip_bad_layers != skip_bad_layers)
    refuse(fmt::format("skip_bad_layers = {}, this command has {}", found.skip_bad_layers, skip_bad_layers));
  for (const json& range : described.at("units"))
    for (std::size_t i = range.at(0); i < range.at(1); ++i) found.units.push_back(plan.units.at(i));
  return found;
}

}  // namespace attest
