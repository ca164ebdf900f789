// The checks as CLI11's validators.
#include "experiments/cli/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>

#include "dumps/base/byte_size.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/printable.h"
#include "experiments/cli/duration.h"

namespace attest {
namespace {

template <class Number>
bool parse(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && rest == end;
}

/// `accept` returns whether the text is good, and may change it. `shown` stands in the help, behind the type.
template <class Accept>
CLI::Validator check(std::string expected, Accept accept, std::string shown = "") {
  return {[expected = std::move(expected), accept = std::move(accept)](std::string& text) {
            return accept(text) ? std::string() : fmt::format("'{}' is not {}", printable(text), expected);
          },
          std::move(shown)};
}

template <class Number>
CLI::Validator plain_whole_number(std::string expected, Number least, Number most) {
  return check(std::move(expected), [least, most](std::string& text) {
    Number number = 0;
    if (!parse(text, number) || number < least || number > most) return false;
    text = fmt::format("{}", number);
    return true;
  });
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const bool bounded = most < std::numeric_limits<std::int64_t>::max();
  return plain_whole_number(bounded ? fmt::format("a whole number from {} to {}", least, most)
                                    : fmt::format("a whole number of at least {}", least),
                            least, most);
}

CLI::Validator seed_number() {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  return plain_whole_number(fmt::format("a whole number from 0 to {}", most), std::uint64_t{0}, most);
}

CLI::Validator nonnegative_number(Infinity infinity) {
  const bool accepted = infinity == Infinity::accepted;
  return check(accepted ? "a number of at least 0, or inf" : "a finite number of at least 0",
               [accepted](const std::string& text) {
                 double number = 0;
                 return parse(text, number) && number >= 0 && (accepted || std::isfinite(number));
               });
}

CLI::Validator share_of_one() {
  return check("a share such as 10% or 0.1", [](std::string& text) {
    const bool percent = text.ends_with('%');
    const std::string digits = percent ? text.substr(0, text.size() - 1) : text;
    double number = 0;
    if (!parse(digits, number)) return false;
    if (percent) number /= 100;
    if (!(number >= 0 && number <= 1)) return false;
    text = fmt::format("{}", number);
    return true;
  });
}

CLI::Validator token_count() {
  return check("a number of tokens such as 4096 or 128K", [](std::string& text) {
    const bool kilo = text.ends_with('K') || text.ends_with('k');
    std::int64_t tokens = 0;
    if (!parse(kilo ? text.substr(0, text.size() - 1) : text, tokens) || tokens < 1 || tokens > (std::int64_t{1} << 40))
      return false;
    text = fmt::format("{}", kilo ? tokens * 1024 : tokens);
    return true;
  });
}

CLI::Validator byte_size() {
  return check("a size such as 16GiB", [](std::string& text) {
    const std::optional<std::uint64_t> bytes = parse_byte_size(text);
    if (bytes) text = fmt::format("{}", *bytes);
    return bytes.has_value();
  });
}

CLI::Validator duration() {
  return check("a time of at least 1 ms: seconds such as 90 or 0.5, or H:MM:SS", [](std::string& text) {
    const std::optional<std::chrono::milliseconds> time = parse_duration(text);
    if (time) text = fmt::format("{}", time->count());
    return time.has_value();
  });
}

CLI::Validator length_in_inches() {
  return check("a length such as 3.25in or 84mm, from 1 to 30 in", [](std::string& text) {
    constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
        {{"in", 1}, {"mm", 1 / 25.4}, {"cm", 1 / 2.54}, {"pt", 1 / 72.27}}};
    for (const auto& [unit, inches] : kUnits) {
      double number = 0;
      if (!text.ends_with(unit) || !parse(text.substr(0, text.size() - unit.size()), number)) continue;
      if (number * inches < 1 || number * inches > 30) return false;
      text = fmt::format("{}", number * inches);
      return true;
    }
    return false;
  });
}

CLI::Validator one_of(std::vector<std::string> names) {
  const std::string expected = fmt::format("one of {}", fmt::join(names, ", "));
  const std::string shown = fmt::format("{{{}}}", fmt::join(names, ","));
  return check(
      expected, [names = std::move(names)](const std::string& text) { return std::ranges::count(names, text) > 0; },
      shown);
}

CLI::Validator text_that_is(std::string expected) {
  return check(std::move(expected), [](const std::string& text) { return !text.empty(); });
}

CLI::Validator readable_file(std::uint64_t most_bytes) {
  return check("a file's name", [most_bytes](const std::string& path) {
    if (path.empty()) return false;
    const InputFile file(path);
    if (file.size() > most_bytes)
      throw InputError(fmt::format("{}: expected at most {} bytes, found {}", path, most_bytes, file.size()));
    return true;
  });
}

}  // namespace attest
