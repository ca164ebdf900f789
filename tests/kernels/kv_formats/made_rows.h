// Rows of keys or values of many kinds, for tests of the formats of a KV cache.
#pragma once

#include <cmath>
#include <vector>

#include "tests/cases.h"
#include "tests/kernels/plain.h"

namespace attest::test {

/// Rows of bfloat16 numbers, in which ties are frequent, with those that quantisers stumble over.
inline std::vector<Row> made_rows(int channels) {
  Random random(static_cast<std::uint64_t>(channels));
  std::vector<Row> rows;
  const auto add = [&](auto&& value) {
    Row row;
    for (int d = 0; d < channels; ++d) row.push_back(to_type(ElementType::bfloat16, value(d)));
    rows.push_back(row);
  };
  for (int i = 0; i < 24; ++i) add([&](int) { return random.normal() * std::ldexp(1.0, i - 12); });
  for (int i = 0; i < 8; ++i) add([&](int) { return static_cast<double>(random.below(17)) - 8; });
  add([](int) { return 0.0; });
  add([](int) { return -1.25; });
  add([](int d) { return d == 5 ? 3.0 : 0.0; });
  add([](int d) { return (d % 2 == 0 ? 1 : -1) * 2.0; });              // peaks of both signs
  add([](int d) { return (d % 32 - 16) * 40.0; });                     // beyond 448
  add([](int d) { return (d % 32 - 16) * 5000.0; });                   // beyond 57344
  add([](int d) { return std::ldexp(1.0 + d % 7, -20); });             // subnormal in fp8
  add([](int d) { return std::ldexp(1.0 + d % 5, -60); });             // scales that float16 flushes to zero
  add([](int d) { return std::ldexp(1.0 + d % 5, -133); });            // reciprocals that overflow
  add([&](int d) { return random.normal() * (d == 3 ? 100 : 0.1); });  // an outlier channel
  return rows;
}

}  // namespace attest::test
