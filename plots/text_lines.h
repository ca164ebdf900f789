// Breaks the texts of a figure into lines that stay on the page.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plots/figure_layout.h"

namespace attest {

/// How many characters fit on a line across the page beside `taken` inches (at 7 pt) of something else.
std::size_t characters_of_line(const FigureLayout& layout, double taken);

/// Lines of at most `maximum` characters, broken at spaces where there are any.
std::vector<std::string> lines_of(std::string text, std::size_t maximum);

/// The texts below or above the panels of a row in lines that stay on the page and do not meet. `centres`: of the
/// panels, inches.
std::vector<std::vector<std::string>> row_of_lines(const std::vector<std::string>& texts,
                                                   const std::vector<double>& centres, const FigureLayout& layout);

}  // namespace attest
