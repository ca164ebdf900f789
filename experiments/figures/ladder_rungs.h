// What figures show of ladders: their rungs, and the metrics of which they are.
#pragma once

#include <array>

#include "analysis/statistics/ladder.h"

namespace attest {

struct Rung {
  const char* name;   ///< in the csv
  const char* title;  ///< of its panel and column
  double Ladder::*value;
};
inline constexpr std::array kRungs = {
    Rung{"mean", "mean", &Ladder::mean},   Rung{"median", "median", &Ladder::median},
    Rung{"p95", "95 %", &Ladder::p95},     Rung{"p99", "99 %", &Ladder::p99},
    Rung{"p999", "99.9 %", &Ladder::p999}, Rung{"worst", "worst cell", &Ladder::worst}};

struct LadderMeasure {
  const char* metric;
  const char* name;   ///< in the csv
  const char* title;  ///< of axes, and in tables
  Badness badness;
};
inline constexpr LadderMeasure kRecallMeasure = {"recall", "recall_deficit", "recall deficit", Badness::deficit},
                               kLseErrorMeasure = {"lse_error", "lse_error", "LSE error (nats)", Badness::value};

}  // namespace attest
