// An order by chance that is the same on every machine: std::shuffle differs between standard libraries.
#pragma once

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

namespace attest {

/// Fisher and Yates: every order is as likely, but for the remainder of a division of 64-bit numbers.
template <class T>
void shuffle(std::vector<T>& values, std::mt19937_64& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

}  // namespace attest
