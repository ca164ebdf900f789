// Parsing of times.
#include "experiments/cli/duration.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace attest {

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr double kMost = 366.0 * 24 * 3600;
  constexpr std::ptrdiff_t kMostColons = 2;
  if (std::ranges::count(text, ':') > kMostColons) return std::nullopt;
  double seconds = 0;
  for (bool first = true;; first = false) {
    const std::string_view part = text.substr(0, text.find(':'));
    const bool last = part.size() == text.size();
    double number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number, std::chars_format::fixed);
    if (error != std::errc{} || end != part.data() + part.size() || !(number >= 0) || number > kMost)
      return std::nullopt;
    if ((!first && number >= 60) || (!last && number != std::floor(number))) return std::nullopt;
    seconds = seconds * 60 + number;
    if (last) break;
    text.remove_prefix(part.size() + 1);
  }
  const std::chrono::milliseconds found(std::llround(seconds * 1000));
  return found.count() > 0 && seconds <= kMost ? std::optional(found) : std::nullopt;
}

}  // namespace attest
