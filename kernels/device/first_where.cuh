// Binary search on the device.
#pragma once

namespace attest {

/// First index below `count` at which the condition holds, `count` if none. The condition must be monotone (false, then
/// true).
template <class Condition>
__device__ int first_where(int count, Condition&& condition) {
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (condition(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace attest
