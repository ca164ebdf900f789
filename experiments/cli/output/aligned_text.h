// Lines of cells as aligned text, and numbers as tables print them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

/// Cells in columns two spaces apart, without spaces at the ends of lines. The first `names` columns are aligned left,
/// the others right. All lines have the same number of cells.
std::string aligned_text(const std::vector<std::vector<std::string>>& lines, std::size_t names);

/// "delta 5": a row's setting; empty for kind "none".
std::string setting_of_row(const std::string& kind, const std::string& label);

/// Whether rows are of several models.
template <class Rows>
bool several_models(const Rows& rows) {
  return std::ranges::any_of(rows, [&](const auto& row) { return row.model != rows[0].model; });
}

/// Shares in per cent; other values with as many digits as are needed to tell them apart. NaN is a dash.
std::string formatted(double value, std::string_view unit);

}  // namespace attest
