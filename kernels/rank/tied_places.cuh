// The places of tied values in a sorted row, found by binary search: rows without ties have no extra cost.
#pragma once

namespace attest {

/// A row in descending order. `at(place)` is the value at a place, or an image of it that is equal for equal values.
template <class At>
struct TiedPlaces {
  At at;
  int count;

  /// First place with the same value as `place`.
  template <class Value>
  __device__ int first(int place, Value value) const {
    if (place == 0 || at(place - 1) != value) return place;
    int low = 0, high = place;  // at(high) == value
    while (low < high) {
      const int middle = (low + high) / 2;
      if (at(middle) == value)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  template <class Value>
  __device__ int last(int place, Value value) const {
    if (place + 1 == count || at(place + 1) != value) return place;
    int low = place, high = count - 1;  // at(low) == value
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (at(middle) == value)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
  /// First plus last place with the same value; 0 beyond the row. The lanes of a warp have consecutive places, and all
  /// call it.
  template <class Value>
  __device__ int sum(int place, Value value) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Value before = __shfl_up_sync(0xFFFFFFFFu, value, 1), after = __shfl_down_sync(0xFFFFFFFFu, value, 1);
    if (place >= count) return 0;
    if (lane == 0 && place > 0) before = at(place - 1);
    if (lane == 31 && place + 1 < count) after = at(place + 1);
    const int first_place = place > 0 && before == value ? first(place, value) : place;
    const int last_place = place + 1 < count && after == value ? last(place, value) : place;
    return first_place + last_place;
  }
};
template <class At>
TiedPlaces(At, int) -> TiedPlaces<At>;

}  // namespace attest
