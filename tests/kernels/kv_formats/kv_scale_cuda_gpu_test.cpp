// Scales on the device are those of the CPU, for every kind, format and part of the KV heads.
#include <gtest/gtest.h>

#include "kernels/kv_formats/kv_format.h"
#include "kernels/kv_formats/kv_scale_cuda.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

class KvScaleCuda : public OnGpu {};

TEST_F(KvScaleCuda, AreThoseOfTheCpu) {
  int compared = 0;
  for (const std::vector<float>& amax :
       {std::vector<float>{3.0f, 896.0f, 1e-30f, 447.0f, 0.0f}, std::vector<float>(40, 0.0f), {1e-44f}, {60000.0f, 7}})
    for (const char* format : {"fp8_e4m3", "fp8_e5m2", "nvfp4", "nvfp4_4over6", "q8_0"})
      for (const char* text : {"unit", "0.37", "amax", "amax_head", "modelopt"}) {
        const KvFormat* of = find_kv_format(format);
        if (std::string(text) == "amax_head" && !of->scale_of_head && of->scale_divisor > 0) continue;
        Gpu gpu;
        Uploads uploads;
        const KvScale scale("scale", text, of, true, nullptr);
        const int heads = static_cast<int>(amax.size()), first = heads / 3, count = heads - first;
        const float* found = cuda_kv_scales(scale, 4, first, count, scale.needs_amax() ? gpu.upload(amax) : nullptr,
                                            heads, gpu.arena, uploads, gpu.stream);
        std::vector<float> expected;
        for (int h = first; h < heads; ++h) expected.push_back(scale.of(4, h, amax));
        EXPECT_EQ(gpu.download(found, expected.size()), expected) << format << ", " << text << ", " << heads;
        ++compared;
      }
  EXPECT_EQ(compared, 4 * (5 * 5 - 2));
}

}  // namespace
}  // namespace attest::test
