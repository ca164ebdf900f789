// Parses the arguments of --layers, --samples and --queries.
#include "experiments/cli/options/study_choice.h"

#include <fmt/core.h>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/text_parts.h"
#include "experiments/cli/parse/checks.h"

namespace attest {
std::vector<std::string> parse_names(std::string_view text) {
  const std::vector<std::string_view> names = split(text, ',');
  return {names.begin(), names.end()};
}

std::vector<std::pair<int, int>> parse_ranges(std::string_view text, std::string_view option, std::string_view noun) {
  std::vector<std::pair<int, int>> ranges;
  for (const std::string_view part : trimmed_items(text)) {
    const std::size_t dash = part.find('-');
    const std::optional<int> first = parse_whole<int>(part.substr(0, dash));
    std::optional<int> last = first;
    if (dash != std::string_view::npos)
      last = dash + 1 < part.size() ? parse_whole<int>(part.substr(dash + 1)) : kOpenEnd;
    if (!first || !last || *last < *first)
      throw UsageError(
          fmt::format("{}: '{}' is neither a {} number nor a range such as 0-31 or 8-", option, part, noun));
    ranges.emplace_back(*first, *last);
  }
  return ranges;
}

std::vector<std::pair<int, int>> parse_layers(std::string_view text) { return parse_ranges(text, "--layers", "layer"); }

QueryChoice parse_queries(std::string_view text) {
  constexpr std::string_view kLast = "last:";
  QueryChoice choice;
  if (text == "all") return choice;
  if (text.starts_with(kLast)) {
    choice.kind = QueryChoice::Kind::last;
    choice.last = parse_whole<decltype(choice.last)>(text.substr(kLast.size())).value_or(0);
    if (choice.last > 0) return choice;
    throw UsageError(fmt::format("--queries: '{}' is not last:N with a whole number N above 0", text));
  }
  choice.kind = QueryChoice::Kind::positions;
  for (const std::string_view part : trimmed_items(text)) {
    const std::optional<std::int64_t> position = parse_whole<std::int64_t>(part);
    if (!position)
      throw UsageError(fmt::format("--queries: '{}' is not a position; expected all, last:N or positions", part));
    choice.positions.push_back(*position);
  }
  return choice;
}

std::vector<std::string> joined_items(std::span<const std::string> parts,
                                      const std::function<bool(const std::string&)>& is_item) {
  std::vector<std::string> items;
  while (!parts.empty()) {
    std::size_t length = parts.size();
    std::string item = join(parts, ",");
    while (length > 1 && !is_item(item)) item = join(parts.first(--length), ",");
    items.push_back(item);
    parts = parts.subspan(length);
  }
  return items;
}

StudyChoice StudyChoiceText::parse() const {
  StudyChoice choice;
  if (!layers.empty()) choice.layers = parse_layers(layers);
  if (!samples.empty()) choice.samples = parse_names(samples);
  choice.queries = parse_queries(queries);
  return choice;
}

void add_study_choice(Command& command, StudyChoiceText& choice) {
  command.option("--layers", choice.layers, "Layers: 0-31, or 0,5,8-11, or 8- for all from 8 on (default all)")
      .joined()
      .takes(text_that_is("a list such as 0-31"))
      .type("LIST");
  command.option("--samples", choice.samples, "Samples by name: a,b (default all)")
      .joined()
      .takes(text_that_is("a list such as a,b"))
      .type("NAMES");
  command.option("--queries", choice.queries, "all, last:N, or positions: 1000,2047")
      .joined()
      .shows_default()
      .type("WHICH");
}

}  // namespace attest
