// A sound recommendation: the seed of its readers.
#pragma once

#include "dumps/base/json.h"

namespace attest::fuzz {

inline Json recommended_settings() {
  return {{"format", "attest-recommendation"},
          {"format_version", 1},
          {"model", "m"},
          {"selector", {{"name", "ffd"}, {"options", {{"bits", "2"}, {"gqa", "union"}}}}},
          {"setting", "delta"},
          {"default", 7},
          {"layers",
           {{"13", {{"default", 5.5}, {"kv_heads", {{"2", 7.25}, {"3", "dense"}}}}},
            {"2", {{"kv_heads", {{"0", 0}}}}},
            {"4", {{"default", "dense"}}}}},
          {"claim", {{"confidence", 0.95}}}};
}

}  // namespace attest::fuzz
