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

#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/ggml_rotation.h"
#include "kernels/kv_formats/hadamard.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

constexpr int kGgmlBlock = 32;

/// A block as two vectors.
struct Halves {
  Vec16f low, high;

  explicit Halves(const float* x) {
    load(x, low);
    load(x + 16, high);
  }
};

/// Of a block: its d is `stored` in float16, inverse = 1/d, or 0 where that is 0: then it decodes to its minimum, or to
/// zeros.
struct BlockScale {
  float inverse, stored, lo, minimum;
};

struct Q8_0 {
  static constexpr double kBytes = 34;
  static constexpr float kDivisor = 127;

  static float reach(const float*, float lo, float hi) { return std::max(hi, -lo); }
  ATTEST_INLINE static void decode(const Vec16f& x, const BlockScale& scale, double* out) {
    const Vec16f position = x * scale.inverse, magnitude = position < 0 ? -position : position;
    const Vec16i whole = __builtin_convertvector(magnitude, Vec16i);
    const Vec16i code = whole - (magnitude - __builtin_convertvector(whole, Vec16f) >= 0.5f);  // true is -1
    store_scaled(position < 0 ? -code : code, scale.stored, out);
  }
};

template <int kHalf>
struct Signed {
  static constexpr double kBytes = kHalf == 8 ? 18 : 22;
  static constexpr float kDivisor = -kHalf;

  /// The number of largest magnitude; the first of two.
  static float reach(const float* x, float lo, float hi) {
    if (hi != -lo) return hi > -lo ? hi : lo;
    return *std::find_if(x, x + kGgmlBlock, [hi](float value) { return std::fabs(value) == hi; });
  }
  ATTEST_INLINE static void decode(const Vec16f& x, const BlockScale& scale, double* out) {
    const Vec16i code = __builtin_convertvector(x * scale.inverse + (kHalf + 0.5f), Vec16i);
    store_scaled((code < 2 * kHalf - 1 ? code : Vec16i{} + (2 * kHalf - 1)) - kHalf, scale.stored, out);
  }
};

template <int kTop>
struct Ranged {
  static constexpr double kBytes = kTop == 15 ? 20 : 24;
  static constexpr float kDivisor = kTop;

  static float reach(const float*, float lo, float hi) { return hi - lo; }
  ATTEST_INLINE static void decode(const Vec16f& x, const BlockScale& scale, double* out) {
    const Vec16i code = __builtin_convertvector((x - scale.lo) * scale.inverse + 0.5f, Vec16i);
    store_scaled(code < kTop ? code : Vec16i{} + kTop, scale.stored, scale.minimum, out);
  }
};

/// Blocks of some rows, whose scales are computed together: alone each would wait for its own division. d is
/// reach / kDivisor.
class Scales {
 public:
  explicit Scales(std::size_t maximum)
      : lo_(maximum + kTogether), hi_(maximum + kTogether), inverse_(maximum), stored_(maximum), minimum_(maximum) {}

  template <class Block>
  void fill(const float* x, std::size_t blocks) {
    find_ranges(x, blocks);
    for (std::size_t b = 0; b < blocks; ++b) hi_[b] = Block::reach(x + b * kGgmlBlock, lo_[b], hi_[b]);
    for (std::size_t b = 0; b < blocks; ++b) {
      const float d = hi_[b] / Block::kDivisor;
      stored_[b] = through_float16(d);
      minimum_[b] = through_float16(lo_[b]);
      inverse_[b] = stored_[b] == 0 || d == 0 ? 0.0f : 1.0f / d;
    }
  }
  BlockScale operator[](std::size_t b) const { return {inverse_[b], stored_[b], lo_[b], minimum_[b]}; }

 private:
  static constexpr std::size_t kTogether = 4;

  void find_ranges(const float* x, std::size_t blocks) {
    for (std::size_t b = 0; b < blocks; b += kTogether) {
      Vec16f largest[2 * kTogether];  // of numbers, then of negated numbers
      float found[2 * kTogether];
      for (std::size_t i = 0; i < kTogether; ++i) {
        const Halves block(x + std::min(b + i, blocks - 1) * kGgmlBlock);
        largest[i] = block.low > block.high ? block.low : block.high;
        largest[kTogether + i] = -(block.low < block.high ? block.low : block.high);
      }
      largest_of_each(largest, found);
      for (std::size_t i = 0; i < kTogether; ++i) {
        hi_[b + i] = found[i];
        lo_[b + i] = -found[kTogether + i];
      }
    }
  }

  std::vector<float> lo_, hi_, inverse_, stored_, minimum_;
};

constexpr std::int64_t kGgmlBlocksAtOnce = 64;

template <class Block>
void apply_ggml(const KvRows& rows, float, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  const GgmlRotation rotation(rows);
  const auto factor = static_cast<float>(rotation.factor);
  const std::int64_t channels = rows.channels, blocks = channels / kGgmlBlock,
                     at_once = std::max<std::int64_t>(1, kGgmlBlocksAtOnce / blocks);
  Scales scales(static_cast<std::size_t>(at_once * blocks));
  std::vector<float> rotated(static_cast<std::size_t>(rotation.channels == 0 ? 0 : at_once * channels));
  for (std::int64_t first = 0; first < count; first += at_once, x += at_once * channels, out += at_once * stride) {
    const std::int64_t tokens = std::min(at_once, count - first);
    const float* own = x;
    if (rotation.channels > 0) {
      for (std::int64_t d = 0; d < tokens * channels; d += rotation.channels)
        hadamard(x + d, rotated.data() + d, rotation.channels, factor);
      own = rotated.data();
    }
    scales.template fill<Block>(own, static_cast<std::size_t>(tokens * blocks));
    for (std::int64_t t = 0; t < tokens; ++t) {
      double* row = out + t * stride;
      for (std::int64_t b = 0; b < blocks; ++b) {
        const BlockScale scale = scales[static_cast<std::size_t>(t * blocks + b)];
        const Halves block(own + t * channels + b * kGgmlBlock);
        Block::decode(block.low, scale, row + b * kGgmlBlock);
        Block::decode(block.high, scale, row + b * kGgmlBlock + 16);
      }
      for (std::int64_t d = 0; d < channels && rotation.channels > 0; d += rotation.channels)
        hadamard(row + d, row + d, rotation.channels, rotation.factor);
    }
  }
}

template <class Block>
double ggml_bytes(const KvRows& rows) {
  return rows.channels * Block::kBytes / kGgmlBlock;
}

std::string ggml_fault(const KvRows& rows) { return fault_unless_multiple(rows, kGgmlBlock); }

template <class Block, auto* cuda>
constexpr KvFormat format(std::string_view name, std::string_view bytes_text, std::string_view rule) {
  return {.name = name,
          .bytes_text = bytes_text,
          .rule = rule,
          .source = "llama.cpp -ctk, -ctv; gguf-py quants.py",
          .of_llama_cpp = true,
          .bytes = ggml_bytes<Block>,
          .fault = ggml_fault,
          .apply = apply_ggml<Block>,
          .cuda = on_cuda<cuda>()};
}

}  // namespace

extern const KvFormat kv_q8_0, kv_q5_1, kv_q5_0, kv_q4_1, kv_q4_0;
constexpr KvFormat kv_q8_0 = format<Q8_0, cuda_kv_q8_0>(
    "q8_0", "34C/32", "blocks of 32: d = max abs / 127, x^ = fp16(d) round(x / d), halves away from zero");
constexpr KvFormat kv_q5_1 =
    format<Ranged<31>, cuda_kv_q5_1>("q5_1", "24C/32", "blocks of 32: min and 31 steps to max, both fp16; 5-bit codes");
constexpr KvFormat kv_q5_0 =
    format<Signed<16>, cuda_kv_q5_0>("q5_0", "22C/32", "blocks of 32: d = signed peak / -16, 5-bit codes around 16");
constexpr KvFormat kv_q4_1 =
    format<Ranged<15>, cuda_kv_q4_1>("q4_1", "20C/32", "blocks of 32: min and 15 steps to max, both fp16; 4-bit codes");
constexpr KvFormat kv_q4_0 =
    format<Signed<8>, cuda_kv_q4_0>("q4_0", "18C/32", "blocks of 32: d = signed peak / -8, 4-bit codes around 8");

}  // namespace attest
