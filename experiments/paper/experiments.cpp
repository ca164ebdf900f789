// The list of experiments, and names for labels.
#include "experiments/paper/experiments.h"

#include <algorithm>

#include "experiments/paper/layer_sparsity.h"
#include "experiments/paper/pseudo_max_gap.h"
#include "experiments/paper/quality_vs_io.h"

namespace attest {

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> list = {quality_vs_io(), pseudo_max_gap(), layer_sparsity()};
  return list;
}

std::string display_name(const std::string& label) {
  std::string name = label;
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < 0x20; }, ' ');
  return name;
}

std::string curve_name(const std::string& label) {
  std::string name = display_name(label);
  std::ranges::replace(name, ',', ';');
  std::ranges::replace(name, '"', '\'');
  return name;
}

}  // namespace attest
