// The palette, dashes and markers of line styles.
#include "plots/style.h"

#include <array>
#include <stdexcept>

namespace attest {
namespace {

// M. Okabe and K. Ito, "Color Universal Design", 2008.
constexpr std::array kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"};
// One for each colour; gnuplot has six filled and hollow pairs, a star and a plus.
constexpr std::array kFilledPoints = {7, 5, 9, 13, 11, 15, 3};
constexpr std::array kHollowPoints = {6, 4, 8, 12, 10, 14, 1};
static_assert(kFilledPoints.size() == kColours.size() && kHollowPoints.size() == kColours.size());

/// Each round of colours has the markers one further: a curve of a single point, which shows no dashes, is not taken
/// for that of the same colour in another round.
std::size_t marker_of(std::size_t index) { return (index + index / kColours.size()) % kColours.size(); }

}  // namespace

PageStyle page_style(const std::string& name) {
  if (name == "paper") return {};
  if (name == "slides") return {.width_in = 8, .font_pt = 14, .line_scale = 1.8};
  throw std::logic_error("no page style " + name);
}

const std::vector<std::string>& heat_colours() {
  // S. van der Walt and N. Smith, 2015 (matplotlib), at ninths.
  static const std::vector<std::string> viridis = {"#440154", "#482878", "#3e4989", "#31688e", "#26828e",
                                                   "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"};
  return viridis;
}

LineStyle line_style(std::size_t index) {
  static const std::array<Gnuplot, 4> kDashes = {"solid", "(8,3)", "(2,2)", "(8,3,2,3)"};
  return {.colour = kColours[index % kColours.size()],
          .dash = kDashes[index / kColours.size() % kDashes.size()],
          .point_type = kFilledPoints[marker_of(index)]};
}

LineStyle oracle_style(std::size_t index) {
  return {.colour = kColours[index % kColours.size()],
          .dash = "(1,2)",
          .point_type = kHollowPoints[marker_of(index)],
          .line_width = 0.8};
}

}  // namespace attest
