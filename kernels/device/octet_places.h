// Where the eight channels stand that a kernel holds of a key or of a value: what a quantiser needs to know of them.
#pragma once

#include <cstdint>

namespace attest {

struct KeyPlace {
  int params;        ///< RowBatch::params
  int token;         ///< from the origin's first key
  std::int64_t key;  ///< among all keys on the device: kv_head * tokens + token of the sample
  int channel;
};

struct ValuePlace {
  std::int64_t value;  ///< among all values on the device: kv_head * tokens + token of the sample
  int channel;
};

}  // namespace attest
