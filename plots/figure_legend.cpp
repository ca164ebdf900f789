// Titles of series in columns, none wider than the page.
#include "plots/figure_legend.h"

#include <algorithm>
#include <set>
#include <string>

#include "plots/axis.h"
#include "plots/layout_lengths.h"
#include "plots/text_lines.h"
#include "plots/utf8.h"

namespace attest {
namespace {

/// A title that is longer than a line of the legend is cut and gets an ellipsis.
std::string cut_to_line(const std::string& title, const FigureLayout& layout) {
  const std::size_t maximum = characters_of_line(layout, kLegendSample + kGap);
  return characters(title) <= maximum ? title : split_characters(title, maximum - 1).first + "\u2026";
}

}  // namespace

void add_entries(const Figure& figure, FigureLayout& layout) {
  bool has_rings = false;
  std::set<std::string> known;  // whole titles: two may be alike where they are cut
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) {
      const std::vector<std::size_t> rows = drawn_rows(figure, series);
      if (rows.empty() || series.mark == Mark::cells) continue;
      if (!series.ring.empty() && !figure.ring_title.empty()) {
        const std::vector<double>& rings = figure.data.numbers(series.ring);
        has_rings |= std::ranges::any_of(rows, [&](std::size_t row) { return rings[row] == 1; });
      }
      if (!series.title.empty() && known.insert(series.title).second)
        layout.legend.push_back({.title = cut_to_line(series.title, layout),
                                 .style = series.style,
                                 .line = series.mark != Mark::points,
                                 .marker = series.mark != Mark::plain});
    }
  }
  if (has_rings)
    layout.legend.push_back({.title = cut_to_line(figure.ring_title, layout), .style = {}, .is_ring = true});
}

LegendGrid legend_grid(const FigureLayout& layout) {
  const auto entries = static_cast<int>(layout.legend.size());
  for (int columns = entries; columns > 0; --columns) {
    LegendGrid grid{.rows = (entries + columns - 1) / columns, .widths = {}};
    double total = kGap * layout.text_scale;
    for (int first = 0; first < entries; first += grid.rows) {
      std::size_t longest = 0;
      for (int i = first; i < std::min(first + grid.rows, entries); ++i)
        longest = std::max(longest, characters(layout.legend[static_cast<std::size_t>(i)].title));
      grid.widths.push_back(layout.text_scale * (kLegendSample + kCharacterWidth * static_cast<double>(longest)));
      total += grid.widths.back();
    }
    if (total <= layout.width_in || columns == 1) return grid;
  }
  return {};
}

void place_entries(FigureLayout& layout, const LegendGrid& grid, double top) {
  if (grid.rows == 0) return;
  double left = layout.width_in;
  for (double width : grid.widths) left -= width;
  left = std::max(kGap / 2 * layout.text_scale, left / 2);
  for (std::size_t i = 0; i < layout.legend.size(); ++i) {
    const auto column = static_cast<int>(i) / grid.rows, row = static_cast<int>(i) % grid.rows;
    if (row == 0 && column > 0) left += grid.widths[static_cast<std::size_t>(column) - 1];
    layout.legend[i].x = left / layout.width_in;
    layout.legend[i].y = (top - (row + 0.5) * kLegendRow * layout.text_scale) / layout.height_in;
  }
}

}  // namespace attest
