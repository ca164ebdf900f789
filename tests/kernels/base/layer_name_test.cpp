// The layer in names of tensors.
#include "kernels/base/layer_name.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(LayerInName, IsTheNumberBehindLayers) {
  for (const char* name : {"layers.12.x", "model.layers.12.self_attn.k_scale", "a.layers.12."})
    EXPECT_EQ(layer_in_name(name), 12) << name;
  for (const char* name : {"", "layers", "layers.", "layers.12", "layers.-1.x", "mylayers.3.x", "layers.x.y"})
    EXPECT_EQ(layer_in_name(name), std::nullopt) << name;
}

}  // namespace
}  // namespace attest
