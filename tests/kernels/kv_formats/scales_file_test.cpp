// Scales read from sound and from damaged safetensors files.
#include "kernels/kv_formats/scales_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "dumps/base/error.h"
#include "tests/kernels/kv_formats/safetensors.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

TEST(ScalesFile, HoldsTheScalesOfEachLayer) {
  const ScratchFolder folder;
  const ScalesFile file(scales_of_two_layers(folder));
  EXPECT_EQ(file.keys, (std::map<int, std::vector<float>>{{0, {0.5f}}, {3, {3, 4}}}));
  EXPECT_EQ(file.values, (std::map<int, std::vector<float>>{{0, {2}}}));
}

TEST(ScalesFile, BadFilesAreRefused) {
  const ScratchFolder folder;
  const auto refusal = [&](const std::string& header, const std::string& data) {
    const std::string path = safetensors(folder, header, data);
    return refusal_of_file<InputError>(path, [&] { const ScalesFile file(path); });
  };
  const auto one = [](const std::string& rest) {
    return R"({"model.layers.0.k_scale": {"dtype": "F32", )" + rest + "}}";
  };
  const std::string scalar = one(R"("shape": [], "data_offsets": [0, 4])");
  EXPECT_EQ(refusal(scalar, bytes_of({std::nanf("")})),
            "model.layers.0.k_scale is nan, expected a finite number above 0");
  EXPECT_EQ(refusal(scalar, bytes_of({0})), "model.layers.0.k_scale is 0, expected a finite number above 0");
  EXPECT_EQ(refusal(scalar, bytes_of({-1})), "model.layers.0.k_scale is -1, expected a finite number above 0");
  for (const char* rest :
       {R"("shape": [], "data_offsets": [0, 8])", R"("shape": [], "data_offsets": [4, 0])",
        R"("shape": [], "data_offsets": [8, 12])", R"("shape": [2], "data_offsets": [0, 4])",
        R"("shape": [65536, 65536, 65536], "data_offsets": [0, 4])", R"("shape": 1, "data_offsets": [0, 4])",
        R"("shape": [], "data_offsets": [0, 18446744073709551615])", R"("shape": [])", R"("shape": [0])"})
    EXPECT_NE(refusal(one(rest), bytes_of({1})), "") << rest;
  EXPECT_EQ(refusal(R"({"layers.0.k_scale": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}, )"
                    R"("layers.0.attn.k_scale": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}})",
                    bytes_of({1})),
            "layers.0.attn.k_scale is a second k_scale of layer 0, expected one");
  EXPECT_EQ(refusal("[1]", ""), "its header is no JSON object, expected a safetensors file");
  const std::string path = folder.file("scales.safetensors");
  std::ofstream(path, std::ios::binary) << std::string(8, '\xff') << "x";
  EXPECT_NE(message_of<InputError>([&] {
              const ScalesFile file(path);
            }).find("its header is said to have 18446744073709551615 bytes"),
            std::string::npos);
  std::ofstream(path, std::ios::binary) << "xyz";
  EXPECT_NE(message_of<InputError>([&] { const ScalesFile file(path); }).find("has 3 bytes"), std::string::npos);
}

}  // namespace
}  // namespace attest::test
