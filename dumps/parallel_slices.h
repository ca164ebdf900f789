// A range of bytes cut into slices for a few threads: reading and checking a layer is bound by memory, not by one core.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace attest {

/// Calls work(begin, end) for slices that cover [0, size), each but the last a multiple of 64 bytes long, from at most four
/// threads; small ranges are one slice. The first exception is rethrown once all have ended.
template <class Work>
void parallel_slices(std::size_t size, Work&& work) {
  constexpr std::size_t kSmallest = 4 << 20, kMostThreads = 4, kLine = 64;
  const std::size_t threads =
      std::clamp<std::size_t>(size / kSmallest, 1, std::min<std::size_t>(kMostThreads, std::max(1u, std::thread::hardware_concurrency())));
  const std::size_t slice = (size / threads + kLine - 1) / kLine * kLine;
  std::vector<std::exception_ptr> errors(threads);
  const auto run = [&](std::size_t i) {
    try {
      const std::size_t begin = std::min(size, i * slice), end = i + 1 == threads ? size : std::min(size, begin + slice);
      if (begin < end) work(begin, end);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(run, i);
    run(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace attest
