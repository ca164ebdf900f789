// The gnuplot script of a figure.
#pragma once

#include <string>

#include "plots/figure.h"

namespace attest {

/// The script. It reads NAME.csv from the folder in which it runs, and writes NAME.<format> for each word of the
/// variable `formats`. Throws std::logic_error when a series names a column that the table does not have, or a curve
/// that gnuplot cannot select.
std::string gnuplot_script(const Figure& figure, const PageStyle& page = {});

}  // namespace attest
