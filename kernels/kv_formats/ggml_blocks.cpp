// q8_0, q5_1, q5_0, q4_1, q4_0: blocks of 32 channels with a float16 scale d, and a float16 minimum in the _1 formats.
//   q8_0        d = max abs / 127, code = round half away(x (1/d)), x^ = code fp16(d)
//   q4_0, q5_0  n = 8, 16: m the signed value of the first largest magnitude, d = m / -n,
//               code = min(2n-1, trunc(x (1/d) + n + .5)), x^ = (code - n) fp16(d)
//   q4_1, q5_1  n = 15, 31: d = (max - min)/n, code = min(n, trunc((x - min)(1/d) + .5)), x^ = code fp16(d) + fp16(min)
// 1/0 is 0. Where C is a multiple of 64, rows are rotated first (rotate = auto): Walsh-Hadamard blocks of 64 for
// values, of the largest 64 2^i that divides C for keys. Queries are rotated alike, which is undoing it on the keys.
// Source: llama.cpp ggml-quants.c, gguf-py quants.py; its attention rotation for quantised caches.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/kv_formats/hadamard.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

constexpr int kBlock = 32;

float inverse_of(float d) { return d == 0 ? 0.0f : 1.0f / d; }

/// For a fp16 scale of 0 the reciprocal may be infinite: such a block decodes to its minimum, or to zeros.
struct Q8_0 {
  static constexpr double kBytes = 34;
  static void apply(const float* x, double* out) {
    const float d = max_magnitude(x, kBlock) / 127.0f, stored = through_float16(d);
    const float inverse = stored == 0 ? 0.0f : inverse_of(d);
    for (int i = 0; i < kBlock; ++i) {
      const float position = x[i] * inverse;
      const int code = round_half_up(std::fabs(position));
      out[i] = static_cast<double>(position < 0 ? -code : code) * stored;
    }
  }
};

template <int kHalf>
struct Signed {
  static constexpr double kBytes = kHalf == 8 ? 18 : 22;
  static void apply(const float* x, double* out) {
    const float largest = max_magnitude(x, kBlock);
    const float* first = std::find_if(x, x + kBlock, [&](float value) { return std::fabs(value) == largest; });
    const float d = *first / -static_cast<float>(kHalf), stored = through_float16(d);
    const float inverse = stored == 0 ? 0.0f : inverse_of(d);
    for (int i = 0; i < kBlock; ++i) {
      const int code = std::min(2 * kHalf - 1, static_cast<int>(x[i] * inverse + (kHalf + 0.5f)));
      out[i] = static_cast<double>(code - kHalf) * stored;
    }
  }
};

template <int kTop>
struct Ranged {
  static constexpr double kBytes = kTop == 15 ? 20 : 24;
  static void apply(const float* x, double* out) {
    const auto [lo, hi] = range_of(x, kBlock);
    const float d = (hi - lo) / static_cast<float>(kTop), stored = through_float16(d);
    const float inverse = stored == 0 ? 0.0f : inverse_of(d);
    const double minimum = through_float16(lo);
    for (int i = 0; i < kBlock; ++i) {
      const int code = std::min(kTop, static_cast<int>((x[i] - lo) * inverse + 0.5f));
      out[i] = code * static_cast<double>(stored) + minimum;
    }
  }
};

/// Channels of a Hadamard block; 0: rows are not rotated.
int rotation_of(const KvRows& rows) {
  if (!rows.rotate || rows.channels % 64 != 0) return 0;
  if (!rows.keys) return 64;
  return 64 << std::countr_zero(static_cast<unsigned>(rows.channels) / 64);
}

template <class Block>
void apply(const KvRows& rows, float, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  const int rotation = rotation_of(rows);
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(std::max(1, rotation))));
  const double undoing = 1 / std::sqrt(static_cast<double>(std::max(1, rotation)));
  std::vector<float> rotated(static_cast<std::size_t>(rotation == 0 ? 0 : rows.channels));
  for (std::int64_t t = 0; t < count; ++t, x += rows.channels, out += stride) {
    const float* row = x;
    if (rotation > 0) {
      std::copy_n(x, rows.channels, rotated.data());
      for (int d = 0; d < rows.channels; d += rotation) hadamard(rotated.data() + d, rotation);
      for (float& value : rotated) value *= factor;
      row = rotated.data();
    }
    for (int d = 0; d < rows.channels; d += kBlock) Block::apply(row + d, out + d);
    if (rotation == 0) continue;
    for (int d = 0; d < rows.channels; d += rotation) hadamard(out + d, rotation);
    for (int d = 0; d < rows.channels; ++d) out[d] *= undoing;
  }
}

template <class Block>
double bytes(const KvRows& rows) {
  return rows.channels * Block::kBytes / kBlock;
}

std::string fault(const KvRows& rows) { return fault_unless_multiple(rows, kBlock); }

template <class Block>
constexpr KvFormat format(std::string_view name, std::string_view bytes_text, std::string_view rule) {
  return {.name = name,
          .bytes_text = bytes_text,
          .rule = rule,
          .source = "llama.cpp -ctk, -ctv; gguf-py quants.py",
          .of_llama_cpp = true,
          .bytes = bytes<Block>,
          .fault = fault,
          .apply = apply<Block>};
}

}  // namespace

extern const KvFormat kv_q8_0, kv_q5_1, kv_q5_0, kv_q4_1, kv_q4_0;
constexpr KvFormat kv_q8_0 =
    format<Q8_0>("q8_0", "34C/32", "blocks of 32: d = max abs / 127, x^ = fp16(d) round(x / d), halves away from zero");
constexpr KvFormat kv_q5_1 =
    format<Ranged<31>>("q5_1", "24C/32", "blocks of 32: min and 31 steps to max, both fp16; 5-bit codes");
constexpr KvFormat kv_q5_0 =
    format<Signed<16>>("q5_0", "22C/32", "blocks of 32: d = signed peak / -16, 5-bit codes around 16");
constexpr KvFormat kv_q4_1 =
    format<Ranged<15>>("q4_1", "20C/32", "blocks of 32: min and 15 steps to max, both fp16; 4-bit codes");
constexpr KvFormat kv_q4_0 =
    format<Signed<8>>("q4_0", "18C/32", "blocks of 32: d = signed peak / -8, 4-bit codes around 8");

}  // namespace attest
