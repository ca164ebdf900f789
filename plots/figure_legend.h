// The legend of a figure: its entries, and their places.
#pragma once

#include <vector>

#include "plots/figure.h"
#include "plots/figure_layout.h"

namespace attest {

/// Adds to the legend each series that is drawn and has a title, and rings if some are drawn.
void add_entries(const Figure& figure, FigureLayout& layout);

/// The legend's columns, filled from top to bottom.
struct LegendGrid {
  int rows = 0;
  std::vector<double> widths;  ///< inches, of each column
};

/// A grid of as many columns as fit.
LegendGrid legend_grid(const FigureLayout& layout);

/// `top`: of the legend, inches from the bottom of a page whose height is known.
void place_entries(FigureLayout& layout, const LegendGrid& grid, double top);

}  // namespace attest
