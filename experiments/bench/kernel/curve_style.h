// The look of curves in the figures of benches: dense attention in black and grey, the other methods in colours.
#pragma once

#include <cstddef>
#include <string_view>

#include "plots/style.h"

namespace attest {

/// The style of a method that is_baseline(): black, or for cuDNN's grey with a marker of its own.
LineStyle baseline_style(std::string_view method);

/// The style of Skip Softmax, which stands beside FFD in every figure: dashed, in a colour that FFD never has.
LineStyle skip_softmax_style();

/// The i-th style that is not black.
LineStyle coloured_style(std::size_t index);

/// The style of the limit of a curve that has `style`: thin dashes, for Mark::plain.
LineStyle limit_style(const LineStyle& style);

}  // namespace attest
