// The inputs of figures: results of `attest run`, files of `attest bench kernel` and of `attest tasks`, in any order.
#pragma once

#include <string>
#include <vector>

namespace attest {

/// For the help of the argument.
inline constexpr const char* kOthersToo = ". Files of `attest bench kernel` and of `attest tasks` may stand among them";

struct FigureInputs {
  std::vector<std::string> results, benches, tasks;
};

/// JSON, by name (.json) or by first character ({), is a bench; HDF5 that says that it is answers to tasks is that.
/// Other files, and what is no file, are results, whose reader says what is wrong.
FigureInputs split_inputs(const std::vector<std::string>& paths);

}  // namespace attest
