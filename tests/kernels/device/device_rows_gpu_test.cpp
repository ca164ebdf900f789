// Padded channel counts, and keys and values as device tensors.
#include <gtest/gtest.h>

#include "kernels/device/device_rows.h"

namespace attest {
namespace {

TEST(DeviceRowsTest, ChannelsAreRoundedUpTo64) {
  constexpr std::pair<int, int> kExpected[] = {{1, 64},    {7, 64},    {63, 64},   {64, 64},   {65, 128},
                                               {127, 128}, {128, 128}, {129, 192}, {192, 192}, {576, 576}};
  for (const auto& [head_dim, padded] : kExpected) EXPECT_EQ(padded_channels(head_dim), padded) << head_dim;
}

TEST(DeviceRowsTest, KeysAndValuesAreTensorsOfTheLayersType) {
  const int keys = 0, values = 0;
  const DeviceKeyValues kv{
      .type = ElementType::bfloat16, .keys = &keys, .values = &values, .head_dim = 192, .value_dim = 128, .tokens = 77};
  const DeviceTokens k = kv.all_keys(), v = kv.all_values();
  EXPECT_EQ(k.type, ElementType::bfloat16);
  EXPECT_EQ(k.data, &keys);
  EXPECT_EQ(k.tokens, 77);
  EXPECT_EQ(k.channels, 192);
  EXPECT_EQ(v.type, ElementType::bfloat16);
  EXPECT_EQ(v.data, &values);
  EXPECT_EQ(v.tokens, 77);
  EXPECT_EQ(v.channels, 128);
}

}  // namespace
}  // namespace attest
