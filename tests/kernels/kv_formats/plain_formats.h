// A second, plain implementation of the formats of a KV cache: one row at a time, every operation that decides a code
// rounded to float32 by hand.
#pragma once

#include <map>
#include <numbers>
#include <string>
#include <utility>

#include "kernels/kv_formats/kv_format.h"
#include "tests/kernels/plain.h"

namespace attest::test {

inline double magnitude(const Row& x) {
  double maximum = 0;
  for (double value : x) maximum = std::max(maximum, std::fabs(value));
  return maximum;
}
inline double lowest(const Row& x) { return *std::min_element(x.begin(), x.end()); }
inline double highest(const Row& x) { return *std::max_element(x.begin(), x.end()); }

/// Half away from zero.
inline double away(double x) { return x < 0 ? -std::floor(-x + 0.5) : std::floor(x + 0.5); }

inline double half_of(double x) {
  return std::fabs(x) >= 65520 ? std::copysign(std::numeric_limits<double>::infinity(), x)
                               : rounded_to(x, 11, -24, 65504);
}

inline double to_e2m1(double x) {
  const double levels[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  int best = 0;
  for (int code = 1; code < 8; ++code) {
    const double now = std::fabs(std::fabs(x) - levels[code]), before = std::fabs(std::fabs(x) - levels[best]);
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return std::copysign(levels[best], x);
}

/// Butterflies of stride 1, 2, 4, ..., each rounded to float32.
inline Row rounded_hadamard(Row x) {
  for (std::size_t stride = 1; stride < x.size(); stride *= 2) {
    Row next(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      next[i] = (i & stride) == 0 ? f32(x[i] + x[i + stride]) : f32(x[i - stride] - x[i]);
    x = next;
  }
  return x;
}

/// The same in double, by halves: H of 2n is [H, H; H, -H].
inline Row exact_hadamard(const Row& x, double factor) {
  if (x.size() == 1) return {x[0] * factor};
  const auto middle = x.begin() + static_cast<long>(x.size() / 2);
  Row out = exact_hadamard(Row(x.begin(), middle), factor);
  const Row low = exact_hadamard(Row(middle, x.end()), factor);
  for (std::size_t i = 0; i < low.size(); ++i) {
    out.push_back(out[i] - low[i]);
    out[i] += low[i];
  }
  return out;
}

/// Calls `part` for consecutive parts of `size` channels.
template <class Part>
Row in_parts(const Row& x, std::size_t size, Part&& part) {
  Row out;
  for (std::size_t begin = 0; begin < x.size(); begin += size) {
    const Row one = part(Row(x.begin() + static_cast<long>(begin), x.begin() + static_cast<long>(begin + size)));
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

struct PlainNvfp4 {
  Row decoded;
  double error = 0;
};
inline PlainNvfp4 plain_nvfp4(const Row& x, double g, double top) {
  const double factor = to_e4m3(f32(f32(1 / g) * f32(magnitude(x) * f32(1 / top)))), step = f32(factor * g);
  PlainNvfp4 out;
  for (double value : x) {
    out.decoded.push_back(step > 0 ? to_e2m1(f32(value * f32(1 / step))) * (factor * g) : 0);
    out.error += (out.decoded.back() - value) * (out.decoded.back() - value);
  }
  return out;
}

/// One block of 32 channels.
inline Row plain_ggml(const std::string& name, const Row& x) {
  Row out;
  if (name == "q8_0") {
    const double d = f32(magnitude(x) / 127), inverse = d == 0 ? 0 : f32(1 / d);
    for (double value : x) out.push_back(half_of(d) == 0 ? 0 : away(f32(value * inverse)) * half_of(d));
  } else if (name.back() == '0') {
    const double n = name == "q4_0" ? 8 : 16;
    double peak = x[0];
    for (double value : x)
      if (std::fabs(value) > std::fabs(peak)) peak = value;
    const double d = f32(peak / -n), inverse = d == 0 ? 0 : f32(1 / d);
    for (double value : x)
      out.push_back(half_of(d) == 0
                        ? 0
                        : (std::min(2 * n - 1, std::trunc(f32(f32(value * inverse) + n + 0.5))) - n) * half_of(d));
  } else {
    const double n = name == "q4_1" ? 15 : 31, lo = lowest(x), d = f32(f32(highest(x) - lo) / n),
                 inverse = d == 0 ? 0 : f32(1 / d);
    for (double value : x) {
      const double code = std::min(n, std::trunc(f32(f32(f32(value - lo) * inverse) + 0.5)));
      out.push_back((half_of(d) == 0 ? 0 : code * half_of(d)) + half_of(lo));
    }
  }
  return out;
}

inline Row plain_rotated_ggml(const std::string& name, const KvRows& rows, const Row& x) {
  const auto blocks = [&](const Row& row) {
    return in_parts(row, 32, [&](const Row& b) { return plain_ggml(name, b); });
  };
  if (!rows.rotate || x.size() % 64 != 0) return blocks(x);
  std::size_t n = 64;
  while (rows.keys && x.size() % (2 * n) == 0) n *= 2;
  const double factor = f32(1 / std::sqrt(static_cast<double>(n)));
  const Row rotated = in_parts(x, n, [&](const Row& part) {
    Row y = rounded_hadamard(part);
    for (double& value : y) value = f32(value * factor);
    return y;
  });
  return in_parts(blocks(rotated), n,
                  [&](const Row& part) { return exact_hadamard(part, 1 / std::sqrt(static_cast<double>(n))); });
}

/// Lloyd-Max's centroids for N(0, 1/C), in double, summed in the order of the released code.
inline Row plain_centroids(int bits, std::size_t channels) {
  const double variance = 1 / static_cast<double>(channels), sigma = std::sqrt(variance), edge = 3.5 * sigma;
  const std::size_t count = std::size_t{1} << bits;
  Row c;
  for (std::size_t i = 0; i < count; ++i)
    c.push_back(-edge + (edge + edge) * (static_cast<double>(i) + 0.5) / static_cast<double>(count));
  for (int iteration = 0; iteration < 200; ++iteration) {
    Row edges{-edge * 3};
    for (std::size_t i = 1; i < count; ++i) edges.push_back((c[i - 1] + c[i]) / 2);
    edges.push_back(edge * 3);
    Row next;
    for (std::size_t i = 0; i < count; ++i) {
      const double h = (edges[i + 1] - edges[i]) / 200;
      double sums[2] = {0, 0};  // of x p(x), of p(x)
      for (const int step : {0, 200}) {
        const double x = step == 0 ? edges[i] : edges[i + 1];
        const double p = 1 / std::sqrt(2 * std::numbers::pi * variance) * std::exp(-x * x / (2 * variance));
        sums[0] += x * p;
        sums[1] += p;
      }
      for (double& sum : sums) sum *= 0.5;
      for (int step = 1; step < 200; ++step) {
        const double x = edges[i] + step * h;
        const double p = 1 / std::sqrt(2 * std::numbers::pi * variance) * std::exp(-x * x / (2 * variance));
        sums[0] += x * p;
        sums[1] += p;
      }
      next.push_back(sums[0] * h / (sums[1] * h));
    }
    double change = 0;
    for (std::size_t i = 0; i < count; ++i) change = std::max(change, std::fabs(next[i] - c[i]));
    if (change < 1e-10) break;
    c = next;
  }
  return c;
}

inline Row plain_turboquant_key(int bits, const Row& x) {
  static std::map<std::pair<int, std::size_t>, Row> known;
  Row& centroids = known[{bits, x.size()}];
  if (centroids.empty()) centroids = plain_centroids(bits, x.size());
  double squares = 0;
  for (double value : x) squares += value * value;
  const double norm = f32(std::sqrt(squares)), root = 1 / std::sqrt(static_cast<double>(x.size()));
  Row y;
  for (double value : x) y.push_back(f32(value / f32(norm + f32(1e-8))));
  y = rounded_hadamard(y);
  double kept = 0;
  for (double& value : y) {
    std::size_t code = 0;
    for (std::size_t i = 0; i + 1 < centroids.size(); ++i)
      code += f32((centroids[i] + centroids[i + 1]) / 2) <= f32(value * f32(root));
    value = f32(centroids[code]);
    kept += value * value;
  }
  return exact_hadamard(y, root / std::sqrt(kept + 1e-16) * half_of(norm));
}

inline Row plain_turboquant_value(int bits, const Row& x) {
  const double lo = lowest(x), step = std::max(f32(f32(highest(x) - lo) / (std::pow(2, bits) - 1)), f32(1e-8));
  Row out;
  for (double value : x)
    out.push_back(std::trunc(f32(f32(f32(value - lo) / step) + 0.5)) * half_of(step) + half_of(lo));
  return out;
}

inline Row plain_int4(const Row& x, ElementType type) {
  const std::string signs = "d09537561b530808c6d3446a8345f7b618b84aa4144cfaba8489b0230a3402af";
  Row y, sign;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const unsigned long nibble = std::stoul(signs.substr(i / 4, 1), nullptr, 16);
    sign.push_back((nibble >> (i % 4)) % 2 == 1 ? 1 : -1);
    y.push_back(x[i] * sign[i]);
  }
  y = rounded_hadamard(y);
  for (double& value : y) value = to_type(type, value);
  const double s = std::max(f32(f32(highest(y) - lowest(y)) / 15), f32(1e-6));
  const double zero = std::clamp(away(f32(-lowest(y) / s)), 0.0, 15.0);
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(s));
  bits = bits / 16 * 16 + static_cast<std::uint32_t>(zero);
  const double stored = std::bit_cast<float>(bits);
  for (double& value : y) value = (std::clamp(away(f32(f32(value * f32(1 / s)) + zero)), 0.0, 15.0) - zero) * stored;
  Row out = exact_hadamard(y, 1 / static_cast<double>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) out[i] *= sign[i];
  return out;
}

inline Row plain_ds_mla(const Row& x, int latent) {
  Row out = x;
  for (int begin = 0; begin < latent; begin += 128) {
    const Row tile(x.begin() + begin, x.begin() + begin + 128);
    const double minimum = std::max(f32(magnitude(tile) / 448), f32(1e-4));
    double s = 1;
    while (s < minimum) s *= 2;
    while (s / 2 >= minimum) s /= 2;
    for (int d = begin; d < begin + 128; ++d)
      out[static_cast<std::size_t>(d)] = to_e4m3(f32(x[static_cast<std::size_t>(d)] / s)) * s;
  }
  return out;
}

/// x^ of one row.
inline Row plain_stored(const std::string& name, const KvRows& rows, double scale, const Row& x) {
  Row out;
  if (name == "fp8_e4m3" || name == "fp8_e5m2") {
    for (double value : x) {
      const double ratio = f32(value / scale);
      out.push_back((name == "fp8_e4m3" ? to_e4m3(ratio) : rounded_to(ratio, 3, -16, 57344)) * scale);
    }
    return out;
  }
  if (name.starts_with("nvfp4"))
    return in_parts(x, 16, [&](const Row& block) {
      const PlainNvfp4 six = plain_nvfp4(block, scale, 6), four = plain_nvfp4(block, scale, 4);
      return name == "nvfp4_4over6" && four.error < six.error ? four.decoded : six.decoded;
    });
  if (name.starts_with("turboquant")) {
    const int bits = name.back() - '0';
    return rows.keys ? plain_turboquant_key(bits, x) : plain_turboquant_value(bits, x);
  }
  if (name == "int4_token_head") return plain_int4(x, rows.element_type);
  if (name == "fp8_ds_mla") return plain_ds_mla(x, rows.shared_values);
  return plain_rotated_ggml(name, rows, x);
}

}  // namespace attest::test
