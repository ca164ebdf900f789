// Parses the arguments of --layers, --samples and --queries.
#include "experiments/cli/options/study_choice.h"

#include <fmt/core.h>

#include <charconv>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "experiments/cli/parse/checks.h"

namespace attest {
namespace {

template <class Number>
bool parse_whole(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && out >= 0;
}

}  // namespace

std::vector<std::string> parse_names(std::string_view text) {
  std::vector<std::string> names;
  for (;;) {
    const std::size_t comma = text.find(',');
    names.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return names;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::pair<int, int>> parse_layers(std::string_view text) {
  std::vector<std::pair<int, int>> ranges;
  for (const std::string& part : parse_names(text)) {
    const std::size_t dash = part.find('-');
    std::pair<int, int> range;
    bool valid = parse_whole(std::string_view(part).substr(0, dash), range.first);
    range.second = range.first;
    const std::string_view end = dash == std::string::npos ? "" : std::string_view(part).substr(dash + 1);
    if (!end.empty())
      valid = valid && parse_whole(end, range.second);
    else if (dash != std::string::npos)
      range.second = kLastLayer;
    if (!valid || range.second < range.first)
      throw UsageError(fmt::format("--layers: '{}' is neither a layer number nor a range such as 0-31 or 8-", part));
    ranges.push_back(range);
  }
  return ranges;
}

QueryChoice parse_queries(std::string_view text) {
  constexpr std::string_view kLast = "last:";
  QueryChoice choice;
  if (text == "all") return choice;
  if (text.starts_with(kLast)) {
    choice.kind = QueryChoice::Kind::last;
    if (parse_whole(text.substr(kLast.size()), choice.last) && choice.last > 0) return choice;
    throw UsageError(fmt::format("--queries: '{}' is not last:N with a whole number N above 0", text));
  }
  choice.kind = QueryChoice::Kind::positions;
  for (const std::string& part : parse_names(text)) {
    std::int64_t position = 0;
    if (!parse_whole(part, position))
      throw UsageError(fmt::format("--queries: '{}' is not a position; expected all, last:N or positions", part));
    choice.positions.push_back(position);
  }
  return choice;
}

std::vector<std::string> joined_items(std::span<const std::string> parts,
                                      const std::function<bool(const std::string&)>& is_item) {
  std::vector<std::string> items;
  while (!parts.empty()) {
    std::size_t length = parts.size();
    std::string item = fmt::format("{}", join(parts, ","));
    while (length > 1 && !is_item(item)) item = fmt::format("{}", join(parts.first(--length), ","));
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
