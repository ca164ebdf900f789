// Pads cells to the widest of their column.
#include "experiments/cli/output/aligned_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "plots/utf8.h"

namespace attest {

std::string aligned_text(const std::vector<std::vector<std::string>>& lines, std::size_t names) {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& line : lines) {
    widths.resize(std::max(widths.size(), line.size()), 0);
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], characters(line[i]));
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - characters(line[i]), ' ');
      row += (i < names ? line[i] + padding : padding + line[i]) + "  ";
    }
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string setting_of_row(const std::string& kind, const std::string& label) {
  return kind == "none" ? "" : kind + " " + label;
}

std::string formatted(double value, std::string_view unit) {
  if (std::isnan(value)) return "-";
  if (unit == "ratio") return fmt::format("{:.2f}%", 100 * value);
  return fmt::format("{:.{}f}", value, unit == "cosine" ? 5 : 4);
}

}  // namespace attest
