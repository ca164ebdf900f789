// Rotary parameters of every spelling, and turning as a model turns.
#include "analysis/audit/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attest {
namespace {

constexpr double kTurned = 1e-6;  // of numbers around 1, in float32

TEST(RopeTest, FrequenciesAreRead) {
  const auto listed = rope_of_layer(R"({"rope_type": "llama3", "inv_freq": [1.0, 0.5]})", 3, 8);
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->frequencies, (std::vector<double>{1, 0.5}));
  const auto plain = rope_of_layer(R"({"rope_theta": 100.0})", 3, 4);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->frequencies, (std::vector<double>{1, 0.1}));
  const auto partial = rope_of_layer(R"({"rope_theta": 100.0, "partial_rotary_factor": 0.5})", 3, 8);
  ASSERT_TRUE(partial);
  EXPECT_EQ(partial->frequencies.size(), 2u);
  const auto latent = rope_of_layer(R"({"rope_theta": 100.0, "first_channel": 4})", 3, 8);
  ASSERT_TRUE(latent);
  EXPECT_EQ(latent->first_channel, 4);
  EXPECT_EQ(latent->frequencies.size(), 2u);
  const char* kinds =
      R"({"full": {"rope_theta": 100.0}, "sliding": {"rope_theta": 10000.0}, "layer_types": ["sliding", "full"]})";
  EXPECT_EQ(rope_of_layer(kinds, 0, 4)->frequencies[1], 0.01);
  EXPECT_EQ(rope_of_layer(kinds, 1, 4)->frequencies[1], 0.1);
}

TEST(RopeTest, WhatDoesNotSayHowChannelsTurnIsLeftAlone) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"rope_type": "dynamic", "rope_theta": 10000.0})", R"({"rope_theta": 0.5})",
        R"({"rope_theta": "10000"})", R"({"inv_freq": ["a"]})", R"({"inv_freq": []})",
        R"({"inv_freq": [1, 2, 3, 4, 5]})", R"({"layer_types": ["full"], "full": 3})", R"({"layer_types": []})",
        R"({"inv_freq": [1e999]})", R"({"rope_theta": 100.0, "partial_rotary_factor": 1e8})",
        R"({"rope_theta": 100.0, "partial_rotary_factor": 1e300})",
        R"({"rope_theta": 100.0, "partial_rotary_factor": -1})", R"({"layer_types": "full", "first_channel": 8})"})
    EXPECT_FALSE(rope_of_layer(text, 0, 8)) << text;
}

TEST(RopeTest, TurningIsThatOfTheModel) {
  const double frequency = 0.3, positions = 2;
  Rope rope{.frequencies = {1, frequency}};
  std::vector<float> x{1, 2, 3, 4};
  rope.turn(positions, x);
  EXPECT_NEAR(x[1], 2 * std::cos(0.6) - 4 * std::sin(0.6), kTurned);
  EXPECT_NEAR(x[3], 4 * std::cos(0.6) + 2 * std::sin(0.6), kTurned);
  rope.turn(-positions, x);
  EXPECT_NEAR(x[1], 2, kTurned);
  rope.neighbours = true;
  rope.first_channel = 1;
  std::vector<float> y{7, 1, 2, 3, 4};
  rope.turn(positions, y);
  EXPECT_EQ(y[0], 7);
  EXPECT_NEAR(y[1], std::cos(2) - 2 * std::sin(2), kTurned);
  EXPECT_NEAR(y[4], 4 * std::cos(0.6) + 3 * std::sin(0.6), kTurned);
}

}  // namespace
}  // namespace attest
