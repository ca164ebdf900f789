// Parsing and printing of sizes in bytes.
#include "dumps/base/byte_size.h"

#include <fmt/core.h>

#include <utility>

#include "dumps/base/text_parts.h"

namespace attest {

std::optional<std::uint64_t> parse_byte_size(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},         {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
      {"TB", 1e12},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
      {"PiB", 0x1p50}, {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40}};
  const std::optional<double> number = take_number<double>(text);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (!number || !(*number > 0)) return std::nullopt;
  for (const auto& [name, factor] : kUnits)
    if (text == name && *number * factor >= 1 && *number * factor < 0x1p60)
      return static_cast<std::uint64_t>(*number * factor);
  return std::nullopt;
}

std::string byte_size_text(double bytes) {
  constexpr double kPrinted1024 = 1023.5, kPrinted1024Point0 = 1023.95;  // as much as that in the next unit
  if (bytes < kPrinted1024) return fmt::format("{:.0f} B", bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB", "PiB"}) {
    bytes /= 1024;
    unit = next;
    if (bytes < kPrinted1024Point0) break;
  }
  return fmt::format("{:.1f} {}", bytes, unit);
}

}  // namespace attest
