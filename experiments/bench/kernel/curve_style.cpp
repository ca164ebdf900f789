// Styles of the palette that keep black for dense attention.
#include "experiments/bench/kernel/curve_style.h"

namespace attest {
namespace {

constexpr std::size_t kBlack = 6;  // the last colour of the palette

}  // namespace

LineStyle baseline_style(std::string_view method) {
  LineStyle style = line_style(kBlack);
  if (method == "sdpa_cudnn") {
    style.colour = kMutedInk;
    style.point_type = line_style(1).point_type;
  }
  return style;
}

LineStyle skip_softmax_style() {
  LineStyle style = line_style(kBlack + 1);
  style.colour = "#7A4A12";
  style.point_type = oracle_style(2).point_type;
  return style;
}

LineStyle coloured_style(std::size_t index) { return line_style(index + index / kBlack); }

LineStyle limit_style(const LineStyle& style) { return {.colour = style.colour, .dash = "(6,4)", .line_width = 0.7}; }

}  // namespace attest
