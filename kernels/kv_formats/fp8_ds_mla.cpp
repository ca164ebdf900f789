// fp8_ds_mla: latent keys of DeepSeek as its engines store them, 656 bytes for 512 + 64 channels.
//   the Dv latent channels in tiles of 128: s = 2^ceil(log2(max(max abs / 448, 1e-4))), x^ = s e4m3(x / s)
//   the other D - Dv channels (of the rotary embedding) stay in 16 bit
// Source: vLLM --kv-cache-dtype fp8_ds_mla, FlashMLA's quantised cache.
#include <algorithm>
#include <cmath>

#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

constexpr int kTile = 128;

double ds_mla_bytes(const KvRows& rows) {
  const double latent = rows.shared_values;
  return latent + latent / 32 + 2 * (rows.channels - latent);
}

std::string ds_mla_fault(const KvRows& rows) {
  if (rows.shared_values == 0)
    return "no values among their channels, expected latent attention (dump attribute values_in_keys)";
  if (rows.shared_values % kTile == 0) return {};
  return fmt::format("{} channels that are the values, expected a multiple of {}", rows.shared_values, kTile);
}

/// 2^ceil(log2(x)) of a normal x, exactly.
float power_of_two_from(float x) {
  int exponent;
  const float mantissa = std::frexp(x, &exponent);  // in [0.5, 1)
  return std::ldexp(1.0f, mantissa > 0.5f ? exponent : exponent - 1);
}

void apply_ds_mla(const KvRows& rows, float, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  for (std::int64_t t = 0; t < count; ++t, x += rows.channels, out += stride) {
    for (int begin = 0; begin < rows.shared_values; begin += kTile) {
      const float scale = power_of_two_from(std::max(max_magnitude(x + begin, kTile) / 448.0f, 1e-4f));
      for (int d = begin; d < begin + kTile; ++d) out[d] = static_cast<double>(round_to_e4m3(x[d] / scale)) * scale;
    }
    for (int d = rows.shared_values; d < rows.channels; ++d) out[d] = x[d];
  }
}

}  // namespace

extern const KvFormat kv_fp8_ds_mla;
constexpr KvFormat kv_fp8_ds_mla{
    .name = "fp8_ds_mla",
    .bytes_text = "Dv + Dv/32 + 2(D-Dv)",
    .rule =
        "k of latent attention: tiles of 128 of the Dv latent channels, s a power of 2, x^ = s e4m3(x / s); the rest "
        "16 bit",
    .source = "vLLM fp8_ds_mla, FlashMLA",
    .of_values = false,
    .bytes = ds_mla_bytes,
    .fault = ds_mla_fault,
    .apply = apply_ds_mla,
    .cuda = on_cuda<cuda_kv_fp8_ds_mla>()};

}  // namespace attest
