// Results of a unit, as a queue of units stores them.
#pragma once

#include "analysis/results/layer_results.h"

namespace attest::test {

inline LayerResults unit_results(int layer, bool done = true) {
  LayerResults made;
  made.layer = layer;
  made.done = done;
  return made;
}

}  // namespace attest::test
