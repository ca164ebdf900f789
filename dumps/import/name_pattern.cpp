#include "dumps/import/name_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "dumps/base/error.h"

namespace attest {
namespace {

/// Fills the hole with `value` if it may hold it.
bool fill(char kind, std::string_view value, NameMatch& match) {
  if (value.empty()) return false;
  if (kind == 's') {
    match.sample = value;
    return value.find('/') == value.npos;
  }
  int layer = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), layer);
  match.layer = layer;
  return error == std::errc{} && end == value.data() + value.size() && value.front() != '-';
}

}  // namespace

NamePattern::NamePattern(std::string text) : text_(std::move(text)) {
  const auto fail = [&](std::string_view why) { throw UsageError(fmt::format("name pattern '{}': {}", text_, why)); };
  std::string* literal = &before_;
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] != '{') {
      *literal += text_[i];
      continue;
    }
    const std::string_view hole = std::string_view(text_).substr(i, 3);
    if (hole != "{l}" && hole != "{s}") fail("expected {l} (layer) or {s} (sample) after '{'");
    if (std::ranges::count(holes_, hole[1], &Hole::kind) > 0) fail(fmt::format("expected {} once", hole));
    if (!holes_.empty() && holes_.back().after.empty()) fail("expected text between its holes");
    holes_.push_back({hole[1], ""});
    literal = &holes_.back().after;
    i += 2;
  }
}

std::optional<NameMatch> NamePattern::match(std::string_view name) const {
  NameMatch match;
  if (name.size() > kLongestName || !name.starts_with(before_) || !match_holes(0, name.substr(before_.size()), match))
    return std::nullopt;
  return match;
}

bool NamePattern::match_holes(std::size_t index, std::string_view rest, NameMatch& match) const {
  if (index == holes_.size()) return rest.empty();
  const Hole& hole = holes_[index];
  if (index + 1 == holes_.size())
    return rest.ends_with(hole.after) && fill(hole.kind, rest.substr(0, rest.size() - hole.after.size()), match);
  for (std::size_t end = rest.find(hole.after, 1); end != rest.npos; end = rest.find(hole.after, end + 1))
    if (fill(hole.kind, rest.substr(0, end), match) &&
        match_holes(index + 1, rest.substr(end + hole.after.size()), match))
      return true;
  return false;
}

}  // namespace attest
