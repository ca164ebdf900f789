// The inputs of figures: results of `attest run` and files of `attest bench kernel`, in any order.
#pragma once

#include <string>
#include <vector>

namespace attest {

/// For the help of the argument.
inline constexpr const char* kBenchesToo = ". Files of `attest bench kernel` may stand among them";

struct FigureInputs {
  std::vector<std::string> results, benches;
};

/// JSON, by name (.json) or by first character ({), is a bench. Other files, and what is no file, are results, whose
/// reader says what is wrong.
FigureInputs split_inputs(const std::vector<std::string>& paths);

}  // namespace attest
