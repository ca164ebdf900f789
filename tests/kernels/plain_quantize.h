// A second, plain implementation of the quantisers: one group of numbers at a time, every operation rounded to float32.
#pragma once

#include <string>

#include "tests/kernels/plain.h"

namespace attest::test {

struct PlainFfdGroup {
  double scale = 0;
  Row thumbnail, residual;
};

/// FFD: one channel of all tokens that share a scale.
inline PlainFfdGroup plain_ffd(const Row& keys, int bits, const std::string& residual, bool dump, ElementType type) {
  const double z = (std::pow(2, bits) - 1) / 2, top = 2 * z;
  const auto r = [&](double x) { return dump ? to_type(type, x) : x; };
  double a = 0;
  for (double k : keys) a = std::max(a, std::fabs(k));
  PlainFfdGroup out;
  const double s = out.scale = r(std::max(f32(a / z), f32(1e-8)));
  for (double k : keys) {
    const double code = s == 0 ? 0 : std::clamp(half_even(r(f32(r(f32(k / s)) + z))), 0.0, top);
    const double thumbnail = s == 0 ? 0 : f32((code - z) * s);
    const double difference = dump ? r(f32(k - r(thumbnail))) : f32(k - thumbnail);
    double stored = 0;
    if (residual == "fp8") stored = to_e4m3(difference);
    if (residual == "int8") {
      const double step = f32(f32(s / 2) / 127);
      stored = step == 0 ? 0 : f32(std::clamp(half_even(f32(difference / step)), -127.0, 127.0) * step);
    }
    out.thumbnail.push_back(thumbnail);
    out.residual.push_back(stored);
  }
  return out;
}

/// KIVI: one group.
inline Row plain_kivi(const Row& x, int bits, bool dump, ElementType type) {
  const double top = std::pow(2, bits) - 1;
  const double lo = *std::min_element(x.begin(), x.end()), hi = *std::max_element(x.begin(), x.end());
  const auto r = [&](double value) { return dump ? to_type(type, value) : value; };
  const double s = dump ? r(f32(r(f32(hi - lo)) / top)) : f32(f32(hi - lo) / top);
  Row out;
  for (double value : x) {
    const double position = s == 0 ? 0 : r(f32(r(f32(value - lo)) / s));
    const double code = half_even(std::clamp(position, 0.0, top));
    out.push_back(s == 0 ? lo : f32(f32(code * s) + lo));
  }
  return out;
}

/// Twilight (min_range = 1e-9) and DoubleSparse (0): all channels of one token.
inline Row plain_token(Row x, int bits, double min_range) {
  const double top = std::pow(2, bits) - 1;
  const double lo = *std::min_element(x.begin(), x.end()), hi = *std::max_element(x.begin(), x.end());
  const double s = f32(std::max(f32(hi - lo), f32(min_range)) / top);
  for (double& value : x)
    value = s == 0 ? lo : f32(f32(std::clamp(half_even(f32(f32(value - lo) / s)), 0.0, top) * s) + lo);
  return x;
}

}  // namespace attest::test
