// The palette, dashes and markers of line styles.
#include "plots/style.h"

#include <array>

namespace attest {
namespace {

// M. Okabe and K. Ito, "Color Universal Design", 2008.
constexpr std::array kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"};
constexpr std::array kDashes = {"solid", "(8,3)", "(2,2)", "(8,3,2,3)"};
constexpr std::array kFilledPoints = {7, 5, 9, 13, 11, 15};
constexpr std::array kHollowPoints = {6, 4, 8, 12, 10, 14};

}  // namespace

LineStyle line_style(std::size_t index) {
  return {.colour = kColours[index % kColours.size()],
          .dash = kDashes[index / kColours.size() % kDashes.size()],
          .point_type = kFilledPoints[index % kFilledPoints.size()]};
}

LineStyle oracle_style(std::size_t index) {
  return {.colour = kColours[index % kColours.size()],
          .dash = "(1,2)",
          .point_type = kHollowPoints[index % kHollowPoints.size()],
          .line_width = 0.8};
}

}  // namespace attest
