// int4_token_head: 4-bit codes with one scale per token and KV head, after random signs and a Hadamard transform.
//   y = H'(x sign), unnormalised, rounded to the dump's type; lo, hi of y
//   s = max((hi - lo)/15, 1e-6), zp = clamp(away(-lo/s), 0, 15), code = clamp(away(y (1/s) + zp), 0, 15)
//   the 4 lowest bits of s become zp; x^ = H'((code - zp) s)/C sign
// away: round half away from zero. Source: vLLM --kv-cache-dtype int4_per_token_head.
#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/hadamard.h"
#include "kernels/kv_formats/int4_signs.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/quantize/rounding.h"
#include "kernels/quantize/vector_steps.h"

namespace attest {
namespace {

float sign_of(int channel) {
  constexpr auto kWords = int4_sign_words();
  return (kWords[static_cast<std::size_t>(channel / 32)] >> channel % 32 & 1u) != 0 ? 1.0f : -1.0f;
}

/// away(x) clamped to [0, 15].
int code_of(float x) {
  const float positive = x > 0.0f ? x : 0.0f;
  return round_half_up(positive < 15.0f ? positive : 15.0f);
}

/// round_to() of y [count] in loops that vectorise.
void round_all(ElementType type, float* y, std::size_t count) {
  if (type == ElementType::float16)
    for (std::size_t i = 0; i < count; ++i) y[i] = round_to_small_float<10, -14>(y[i], 65504.0f);
  if (type == ElementType::bfloat16)
    for (std::size_t i = 0; i < count; i += 16) {
      Vec16u bits;
      load(y + i, bits);
      store((bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u, y + i);
    }
}

/// to[i] = (code_of(y[i] inverse + shift) - shift) stored, i < 16.
ATTEST_INLINE void decode(const float* y, float inverse, int shift, double stored, double* to) {
  Vec16f position;
  load(y, position);
  position = position * inverse + static_cast<float>(shift);
  position = position > 0.0f ? position : Vec16f{};
  position = position < 15.0f ? position : Vec16f{} + 15.0f;
  const Vec16i whole = __builtin_convertvector(position, Vec16i);
  store_scaled(whole - (position - __builtin_convertvector(whole, Vec16f) >= 0.5f) - shift, stored, to);  // true is -1
}

/// The signs of a row, in float and in double; behind them zeros, up to a multiple of 16.
struct Signs {
  std::vector<float> narrow;
  std::vector<double> wide;

  explicit Signs(int channels) : narrow(static_cast<std::size_t>((channels + 15) / 16 * 16)), wide(narrow.size()) {
    for (int d = 0; d < channels; ++d) {
      const auto at = static_cast<std::size_t>(d);
      wide[at] = narrow[at] = sign_of(d);
    }
  }
};

/// What decides a row's codes, for some rows together: alone each would wait for its own divisions.
struct RowScales {
  static constexpr int kRowsAtOnce = 8;
  float lo[kRowsAtOnce], hi[kRowsAtOnce], inverse[kRowsAtOnce];
  int zero_point[kRowsAtOnce];
  double stored[kRowsAtOnce];  ///< the scale with the zero point in its low bits

  void fill() {
    for (int t = 0; t < kRowsAtOnce; ++t) {
      const float scale = std::max((hi[t] - lo[t]) / 15.0f, 1e-6f);
      inverse[t] = 1.0f / scale;
      zero_point[t] = code_of(-lo[t] / scale);
      stored[t] = std::bit_cast<float>((std::bit_cast<std::uint32_t>(scale) & ~15u) |
                                       static_cast<std::uint32_t>(zero_point[t]));
    }
  }
};

void apply_int4(const KvRows& rows, float, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  const int channels = rows.channels;
  const Signs signs(channels);
  const std::size_t padded = signs.narrow.size();
  std::vector<float> y(padded * RowScales::kRowsAtOnce);
  double few[16];  // a row of less channels than are decoded together
  RowScales scales{};
  const double undoing = 1.0 / channels;  // exact: a power of 2
  for (std::int64_t first = 0; first < count; first += RowScales::kRowsAtOnce) {
    const int here = static_cast<int>(std::min<std::int64_t>(RowScales::kRowsAtOnce, count - first));
    for (int t = 0; t < here; ++t, x += channels) {
      float* own = y.data() + static_cast<std::size_t>(t) * padded;
      for (int d = 0; d < channels; ++d) own[d] = x[d] * signs.narrow[static_cast<std::size_t>(d)];
      hadamard(own, own, channels, 1.0f);
      round_all(rows.element_type, own, padded);
      const auto [lo, hi] = range_of(own, channels);
      scales.lo[t] = lo;
      scales.hi[t] = hi;
    }
    scales.fill();
    for (int t = 0; t < here; ++t, out += stride) {
      const float* own = y.data() + static_cast<std::size_t>(t) * padded;
      double* to = channels < 16 ? few : out;
      for (std::size_t d = 0; d < padded; d += 16)
        decode(own + d, scales.inverse[t], scales.zero_point[t], scales.stored[t], to + d);
      hadamard(to, to, channels, undoing);
      for (int d = 0; d < channels; ++d) out[d] = to[d] * signs.wide[static_cast<std::size_t>(d)];
    }
  }
}

double int4_bytes(const KvRows& rows) { return rows.channels / 2.0 + 4; }

std::string int4_fault(const KvRows& rows) {
  if (rows.channels <= kInt4MaxChannels) return fault_unless_power_of_two(rows);
  return fmt::format("{} channels, expected at most {}: the released code draws no more signs", rows.channels,
                     kInt4MaxChannels);
}

}  // namespace

extern const KvFormat kv_int4_token_head;
constexpr KvFormat kv_int4_token_head{.name = "int4_token_head",
                                      .bytes_text = "C/2 + 4",
                                      .rule =
                                          "fixed signs, Hadamard transform, 15 uniform steps per token and head with a "
                                          "zero point in the scale's low bits",
                                      .source = "vLLM int4_per_token_head",
                                      .bytes = int4_bytes,
                                      .fault = int4_fault,
                                      .apply = apply_int4,
                                      .cuda = on_cuda<cuda_kv_int4_token_head>()};

}  // namespace attest
