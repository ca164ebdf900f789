// Positions of the eight channels of a key or value that a kernel passes to a quantiser.
#pragma once

#include <cstdint>

namespace attest {

struct KeyPlace {
  int params;        ///< RowBatch::params
  int token;         ///< counted from the origin's first key
  std::int64_t key;  ///< index among all keys on the device: kv_head * tokens + token of the sample
  int channel;       ///< first of the eight
};

struct ValuePlace {
  std::int64_t value;  ///< index among all values on the device: kv_head * tokens + token of the sample
  int channel;         ///< first of the eight
};

}  // namespace attest
