// int4_token_head: 4-bit codes with one scale per token and KV head, after random signs and a Hadamard transform.
//   y = H'(x sign), unnormalised, rounded to the dump's type; lo, hi of y
//   s = max((hi - lo)/15, 1e-6), zp = clamp(away(-lo/s), 0, 15), code = clamp(away(y (1/s) + zp), 0, 15)
//   the 4 lowest bits of s become zp; x^ = H'((code - zp) s)/C sign
// away: round half away from zero. Source: vLLM --kv-cache-dtype int4_per_token_head.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/hadamard.h"
#include "kernels/kv_formats/int4_signs.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/quantize/rounding.h"

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

/// round_to() in loops that vectorise.
void round_all(ElementType type, float* x, int count) {
  if (type == ElementType::float16)
    for (int i = 0; i < count; ++i) x[i] = round_to_small_float<10, -14>(x[i], 65504.0f);
  if (type == ElementType::bfloat16)
    for (int i = 0; i < count; ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]);
      x[i] = std::bit_cast<float>((bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u);
    }
}

void apply(const KvRows& rows, float, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  const int channels = rows.channels;
  const auto n = static_cast<std::size_t>(channels);
  std::vector<float> sign(n), y(n);
  const double undoing = 1.0 / channels;  // exact: a power of 2
  for (int d = 0; d < channels; ++d) sign[static_cast<std::size_t>(d)] = sign_of(d);
  for (std::int64_t t = 0; t < count; ++t, x += channels, out += stride) {
    for (std::size_t d = 0; d < n; ++d) y[d] = x[d] * sign[d];
    hadamard(y.data(), channels);
    round_all(rows.element_type, y.data(), channels);
    const auto [lo, hi] = range_of(y.data(), channels);
    const float scale = std::max((hi - lo) / 15.0f, 1e-6f), inverse = 1.0f / scale;
    const int zero_point = code_of(-lo / scale);
    const auto shift = static_cast<float>(zero_point);
    const double stored =
        std::bit_cast<float>((std::bit_cast<std::uint32_t>(scale) & ~15u) | static_cast<std::uint32_t>(zero_point));
    for (std::size_t d = 0; d < n; ++d)
      out[d] = static_cast<double>(code_of(y[d] * inverse + shift) - zero_point) * stored;
    hadamard(out, channels);
    for (std::size_t d = 0; d < n; ++d) out[d] *= undoing * sign[d];
  }
}

double bytes(const KvRows& rows) { return rows.channels / 2.0 + 4; }

std::string fault(const KvRows& rows) {
  if (rows.channels <= kInt4MostChannels) return fault_unless_power_of_two(rows);
  return fmt::format("{} channels, expected at most {}: the released code draws no more signs", rows.channels,
                     kInt4MostChannels);
}

}  // namespace

extern const KvFormat kv_int4_token_head;
constexpr KvFormat kv_int4_token_head{.name = "int4_token_head",
                                      .bytes_text = "C/2 + 4",
                                      .rule =
                                          "fixed signs, Hadamard transform, 15 uniform steps per token and head with a "
                                          "zero point in the scale's low bits",
                                      .source = "vLLM int4_per_token_head",
                                      .bytes = bytes,
                                      .fault = fault,
                                      .apply = apply,
                                      .cuda = on_cuda<cuda_kv_int4_token_head>()};

}  // namespace attest
