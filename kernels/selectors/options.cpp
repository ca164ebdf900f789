// Parses option values and writes the error messages for invalid ones.
#include "kernels/selectors/options.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/text_parts.h"

namespace attest {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

std::string quoted_alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += "'" + words[i] + "'";
  }
  return text;
}

std::string shortest(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

}  // namespace

std::string nearest_names(std::string_view word, const std::vector<std::string>& known) {
  word = word.substr(0, 64);  // no name is longer, and the work grows with the length
  std::vector<std::string> sorted = known;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const std::string& a, const std::string& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
  if (sorted.size() > 3) sorted.resize(3);
  return quoted_alternatives(sorted);
}

bool parse_budget(std::string_view text, Setting& out) {
  const bool percent = !text.empty() && text.back() == '%';
  if (percent) text.remove_suffix(1);
  const std::optional<double> value = parse_number<double>(text);
  const Setting setting{.value = value.value_or(0), .percent = percent};
  if (!value || !is_valid(SettingKind::budget, setting)) return false;
  out = setting;
  return true;
}

const std::string* OptionReader::find(const std::string& option) const {
  for (const auto& [name, value] : spec_.options)
    if (name == option) return &value;
  return nullptr;
}

void OptionReader::reject(const std::string& option, const std::string& value, const std::string& expected) const {
  throw UsageError("selector '" + spec_.name + "': option '" + option + "' is '" + value + "', expected " + expected);
}

int OptionReader::index_of(const std::string& value, std::initializer_list<std::string_view> valid) {
  return static_cast<int>(std::find(valid.begin(), valid.end(), value) - valid.begin());
}

std::string OptionReader::choice(const std::string& option, std::span<const std::string_view> valid, OptionText text) {
  const std::string* given = find(option);
  const std::string value = given != nullptr ? *given : std::string(*valid.begin());
  if (std::find(valid.begin(), valid.end(), value) == valid.end())
    reject(option, value, quoted_alternatives({valid.begin(), valid.end()}));
  resolved_.push_back({option, value, join(valid, ","), text, {valid.begin(), valid.end()}});
  return value;
}

int OptionReader::number(const std::string& option, std::initializer_list<int> valid, OptionText text) {
  std::vector<std::string> names;
  for (int v : valid) names.push_back(std::to_string(v));
  const std::string* given = find(option);
  const std::string value = given != nullptr ? *given : names.front();
  if (std::find(names.begin(), names.end(), value) == names.end()) reject(option, value, quoted_alternatives(names));
  resolved_.push_back({option, value, join(names, ","), text, names});
  return std::stoi(value);
}

int OptionReader::integer(const std::string& option, int fallback, int min, int max, OptionText text) {
  const std::string* given = find(option);
  const std::optional<int> value = given != nullptr ? parse_number<int>(*given) : fallback;
  if (given != nullptr && (!value || *value < min || *value > max))
    reject(option, *given, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  resolved_.push_back({option, std::to_string(*value), std::to_string(min) + ".." + std::to_string(max), text});
  return *value;
}

double OptionReader::real(const std::string& option, double fallback, double min, double max, OptionText text) {
  const std::string* given = find(option);
  const std::optional<double> value = given != nullptr ? parse_number<double>(*given) : fallback;
  if (given != nullptr && (!value || !(*value >= min && *value <= max)))
    reject(option, *given, "a number from " + shortest(min) + " to " + shortest(max));
  resolved_.push_back({option, shortest(*value), shortest(min) + ".." + shortest(max), text});
  return *value;
}

Setting OptionReader::budget(const std::string& option, std::string_view fallback, OptionText text) {
  const std::string* given = find(option);
  const std::string value = given != nullptr ? *given : std::string(fallback);
  Setting setting;
  if (!parse_budget(value, setting))
    reject(option, value, "a number of tokens (1024) or a share of the visible keys (25%)");
  resolved_.push_back({option, value, "tokens or per cent", text});
  return setting;
}

std::string OptionReader::text(const std::string& option, const std::string& fallback, OptionText text) {
  const std::string* given = find(option);
  resolved_.push_back({option, given != nullptr ? *given : fallback, "text", text});
  return resolved_.back().value;
}

void OptionReader::finish() const {
  std::vector<std::string> known;
  for (const OptionValue& option : resolved_) known.push_back(option.name);
  for (std::size_t i = 0; i < spec_.options.size(); ++i) {
    const std::string& name = spec_.options[i].first;
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError("selector '" + spec_.name + "' has no option '" + name + "'" +
                       (known.empty() ? "; it has none" : "; nearest: " + nearest_names(name, known)));
    for (std::size_t j = 0; j < i; ++j)
      if (spec_.options[j].first == name)
        throw UsageError("selector '" + spec_.name + "': option '" + name + "' is given twice");
  }
}

}  // namespace attest
