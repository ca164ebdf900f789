// Compares the layers that selectors name with those of the models.
#include "analysis/study/absent_layers.h"

#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/join.h"

namespace attest {

std::vector<std::string> absent_layer_notices(const Study& study) {
  int layers = 0;
  for (const StudyDump& dump : study.dumps) layers = std::max(layers, dump.num_layers);
  std::vector<std::string> notices;
  for (const StudySelector& chosen : study.selectors)
    if (const int last = chosen.selector->last_named_layer(); last >= layers)
      notices.push_back(fmt::format("selector '{}' leaves layer {} as it is, and {} {}, counted from 0", chosen.label,
                                    last, study.dumps.size() == 1 ? "the model has" : "no model has more than",
                                    counted(layers, "layer")));
  return notices;
}

}  // namespace attest
