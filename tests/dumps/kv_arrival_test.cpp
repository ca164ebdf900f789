// Heads that have arrived, whatever the order of their bytes.
#include "dumps/kv_arrival.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

namespace attest {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kKey = 60, kValue = 35;  // bytes per head

TEST(KvArrival, AHeadIsThereOnceAllItsBytesAre) {
  struct Piece {
    KvTensor tensor;
    std::size_t offset, bytes;
  };
  std::vector<Piece> pieces;  // of 7 bytes, across the borders of heads
  for (const auto& [tensor, total] : {std::pair(KvTensor::k, 5 * kKey), std::pair(KvTensor::v, 5 * kValue)})
    for (std::size_t at = 0; at < total; at += 7) pieces.push_back({tensor, at, std::min<std::size_t>(7, total - at)});
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(pieces, random);
    KvArrival arrival;
    arrival.begin(5, kKey, kValue);
    std::vector<bool> keys(5 * kKey), values(5 * kValue);
    for (const Piece& piece : pieces) {
      arrival.add(piece.tensor, piece.offset, piece.bytes);
      std::vector<bool>& there = piece.tensor == KvTensor::k ? keys : values;
      std::fill_n(there.begin() + static_cast<std::ptrdiff_t>(piece.offset), piece.bytes, true);
      const auto bytes = [](const std::vector<bool>& of) { return std::ranges::find(of, false) - of.begin(); };
      const auto complete = std::min<std::size_t>(static_cast<std::size_t>(bytes(keys)) / kKey,
                                                  static_cast<std::size_t>(bytes(values)) / kValue);
      EXPECT_EQ(arrival.wait(6, 0ms).heads, static_cast<int>(complete));
    }
    EXPECT_EQ(arrival.wait(5, 0ms).heads, 5);
    EXPECT_FALSE(arrival.wait(5, 0ms).ended);
  }
}

TEST(KvArrival, WaitsForHeads) {
  KvArrival arrival;
  arrival.begin(2, kKey, kValue);
  const std::jthread other([&] {
    arrival.add(KvTensor::v, 0, kValue);
    std::this_thread::sleep_for(10ms);
    arrival.add(KvTensor::k, 0, kKey);
  });
  EXPECT_EQ(arrival.wait(1, 60s).heads, 1);
}

TEST(KvArrival, SaysWhenTheLastBytesAreBeingRead) {
  KvArrival arrival;
  arrival.begin(2, kKey, kValue);
  arrival.add_begun(2 * kKey);
  arrival.add_begun(2 * kValue - 1);
  EXPECT_FALSE(arrival.wait_for_last_begun(0ms).all_begun);
  const std::jthread other([&] {
    std::this_thread::sleep_for(10ms);
    arrival.add_begun(1);
  });
  const KvArrival::State state = arrival.wait_for_last_begun(60s);
  EXPECT_TRUE(state.all_begun);
  EXPECT_EQ(state.heads, 0) << "none has arrived";
  arrival.begin(2, kKey, kValue);
  EXPECT_FALSE(arrival.wait_for_last_begun(0ms).all_begun) << "another layer";
  arrival.end();
  EXPECT_TRUE(arrival.wait_for_last_begun(60s).ended);
}

TEST(KvArrival, TheEndWakes) {
  KvArrival arrival;
  arrival.begin(2, kKey, kValue);
  const std::jthread other([&] {
    std::this_thread::sleep_for(10ms);
    arrival.end();
  });
  const KvArrival::State state = arrival.wait(2, 60s);
  EXPECT_TRUE(state.ended);
  EXPECT_EQ(state.heads, 0);
  arrival.begin(1, kKey, kValue);
  EXPECT_FALSE(arrival.wait(1, 0ms).ended) << "of the layer before";
}

}  // namespace
}  // namespace attest
