// fp8_e4m3, fp8_e5m2: one scale s for a layer's keys or values, or for each KV head.
//   code = fp8(x / s), round half to even, saturating at 448 or 57344
//   x^ = code s
// Source: OCP 8-bit floating point; the KV caches of vLLM (--kv-cache-dtype fp8), SGLang and TensorRT-LLM.
#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/kv_format_list.h"
#include "kernels/kv_formats/row_steps.h"
#include "kernels/quantize/rounding.h"

namespace attest {
namespace {

double fp8_bytes(const KvRows& rows) { return rows.channels; }
std::string no_fault(const KvRows&) { return {}; }

template <float (*round)(float)>
void apply_fp8(const KvRows& rows, float scale, const float* x, std::int64_t count, double* out, std::int64_t stride) {
  for (std::int64_t t = 0; t < count; ++t)
    for (int d = 0; d < rows.channels; ++d)
      out[t * stride + d] = static_cast<double>(round(x[t * rows.channels + d] / scale)) * scale;
}

template <float (*round)(float), float (*cut)(float), auto* cuda>
constexpr KvFormat fp8(std::string_view name, std::string_view rule, float largest) {
  return {.name = name,
          .bytes_text = "C",
          .rule = rule,
          .source = "OCP FP8; KV caches of vLLM, SGLang, TensorRT-LLM",
          .scale_divisor = largest,
          .scale_of_head = true,
          .bytes = fp8_bytes,
          .fault = no_fault,
          .apply = apply_fp8<round>,
          .apply_cut = apply_fp8<cut>,
          .cuda = on_cuda<cuda>()};
}

}  // namespace

extern const KvFormat kv_fp8_e4m3, kv_fp8_e5m2;
constexpr KvFormat kv_fp8_e4m3 = fp8<round_to_e4m3, cut_to_e4m3, cuda_kv_fp8_e4m3>(
    "fp8_e4m3", "x^ = s e4m3(x / s), half to even, saturating at 448 s", 448);
constexpr KvFormat kv_fp8_e5m2 = fp8<round_to_e5m2, cut_to_e5m2, cuda_kv_fp8_e5m2>(
    "fp8_e5m2", "x^ = s e5m2(x / s), half to even, saturating at 57344 s", 57344);

}  // namespace attest
