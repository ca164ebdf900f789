// The checks, and the grammars of times and of token counts.
#include "experiments/cli/parse/checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "dumps/base/byte_size.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "dumps/base/text_parts.h"

namespace attest {
namespace {

template <class Number>
Check plain_whole_number(std::string expected, Number minimum, Number maximum) {
  const auto accepts = [minimum, maximum](std::string& text) {
    const std::optional<Number> number = parse_number<Number>(text);
    if (!number || *number < minimum || *number > maximum) return false;
    text = fmt::format("{}", *number);
    return true;
  };
  return {std::move(expected), accepts, ""};
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr double kMax = 366.0 * 24 * 3600;
  constexpr std::ptrdiff_t kMaxColons = 2;
  if (std::ranges::count(text, ':') > kMaxColons) return std::nullopt;
  double seconds = 0;
  const std::vector<std::string_view> parts = split(text, ':');
  for (const std::string_view& part : parts) {
    const std::optional<double> number = parse_number<double>(part, std::chars_format::fixed);
    if (!number || !(*number >= 0) || *number > kMax) return std::nullopt;
    if (&part != &parts.front() && *number >= 60) return std::nullopt;
    if (&part != &parts.back() && *number != std::floor(*number)) return std::nullopt;
    seconds = seconds * 60 + *number;
  }
  const std::chrono::milliseconds found(std::llround(seconds * 1000));
  return found.count() > 0 && seconds <= kMax ? std::optional(found) : std::nullopt;
}

std::optional<std::int64_t> parse_token_count(std::string_view text, std::int64_t most) {
  const bool kilo = text.ends_with('K') || text.ends_with('k');
  if (kilo) text.remove_suffix(1);
  const std::int64_t number = parse_number<std::int64_t>(text).value_or(0), unit = kilo ? 1024 : 1;
  return number >= 1 && number <= most / unit ? std::optional(number * unit) : std::nullopt;
}

std::string Check::complaint_about(std::string& text) const {
  return !accepts || accepts(text) ? std::string() : fmt::format("'{}' is not {}", printable(text), expected);
}

Check whole_number(std::int64_t minimum, std::int64_t maximum) {
  const bool bounded = maximum < std::numeric_limits<std::int64_t>::max();
  return plain_whole_number(bounded ? fmt::format("a whole number from {} to {}", minimum, maximum)
                                    : fmt::format("a whole number of at least {}", minimum),
                            minimum, maximum);
}

Check seed_number() {
  constexpr std::uint64_t maximum = std::numeric_limits<std::uint64_t>::max();
  return plain_whole_number(fmt::format("a whole number from 0 to {}", maximum), std::uint64_t{0}, maximum);
}

Check nonnegative_number(Infinity infinity) {
  const bool accepted = infinity == Infinity::accepted;
  return Check{accepted ? "a number of at least 0, or inf" : "a finite number of at least 0",
               [accepted](const std::string& text) {
                 const std::optional<double> number = parse_number<double>(text);
                 return number && *number >= 0 && (accepted || std::isfinite(*number));
               },
               ""};
}

Check share_of_one() {
  return Check{"a share such as 10% or 0.1",
               [](std::string& text) {
                 const bool percent = text.ends_with('%');
                 const std::optional<double> number =
                     parse_number<double>(std::string_view(text).substr(0, text.size() - (percent ? 1 : 0)));
                 const double share = number.value_or(-1) / (percent ? 100 : 1);
                 if (!(share >= 0 && share <= 1)) return false;
                 text = fmt::format("{}", share);
                 return true;
               },
               ""};
}

Check token_count() {
  return Check{"a number of tokens such as 4096 or 128K",
               [](std::string& text) {
                 const std::optional<std::int64_t> tokens = parse_token_count(text, std::int64_t{1} << 50);
                 if (tokens) text = fmt::format("{}", *tokens);
                 return tokens.has_value();
               },
               ""};
}

Check byte_size() {
  return Check{"a size such as 16GiB",
               [](std::string& text) {
                 const std::optional<std::uint64_t> bytes = parse_byte_size(text);
                 if (bytes) text = fmt::format("{}", *bytes);
                 return bytes.has_value();
               },
               ""};
}

Check duration() {
  return Check{"a time of at least 1 ms: seconds such as 90 or 0.5, or H:MM:SS",
               [](std::string& text) {
                 const std::optional<std::chrono::milliseconds> time = parse_duration(text);
                 if (time) text = fmt::format("{}", time->count());
                 return time.has_value();
               },
               ""};
}

Check length_in_inches() {
  return Check{"a length such as 3.25in or 84mm, from 1 to 30 in",
               [](std::string& text) {
                 constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
                     {{"in", 1}, {"mm", 1 / 25.4}, {"cm", 1 / 2.54}, {"pt", 1 / 72.27}}};
                 for (const auto& [unit, inches] : kUnits) {
                   if (!text.ends_with(unit)) continue;
                   const std::optional<double> number =
                       parse_number<double>(std::string_view(text).substr(0, text.size() - unit.size()));
                   if (!number) continue;
                   if (*number * inches < 1 || *number * inches > 30) return false;
                   text = fmt::format("{}", *number * inches);
                   return true;
                 }
                 return false;
               },
               ""};
}

Check one_of(std::vector<std::string> names) {
  const std::string expected = fmt::format("one of {}", join(names, ", "));
  const std::string shown = fmt::format("{{{}}}", join(names, ","));
  return Check{expected,
               [names = std::move(names)](const std::string& text) { return std::ranges::count(names, text) > 0; },
               shown};
}

Check file_name() { return text_that_is("a file's name"); }

Check folder_name() { return text_that_is("a folder's name"); }

Check text_that_is(std::string expected) {
  return Check{std::move(expected), [](const std::string& text) { return !text.empty(); }, ""};
}

Check readable_file(std::uint64_t max_bytes) {
  return Check{
      "a file's name",
      [max_bytes](const std::string& path) {
        if (path.empty()) return false;
        const InputFile file(path);
        if (file.size() > max_bytes)
          throw InputError(fmt::format("{}: expected at most {} bytes, found {}", path, max_bytes, file.size()));
        return true;
      },
      ""};
}

}  // namespace attest
