// HDF5 loops on some damaged files, and a process can only end then. It should not take long until then.
#pragma once

namespace attest::fuzz {

/// Of the processor. An input of a fuzz target takes a millisecond or some; sanitizers take several times as much.
#ifdef __SANITIZE_ADDRESS__
inline constexpr double kLoopSeconds = 0.2;
#else
inline constexpr double kLoopSeconds = 0.02;
#endif

/// While it lives, the process ends with `exit_code` after kLoopSeconds, and before where HDF5 follows the list of a
/// heap's free blocks in a circle, the loop of nearly all files on which it loops.
class LoopLimit {
 public:
  explicit LoopLimit(int exit_code);
  ~LoopLimit();
  LoopLimit(const LoopLimit&) = delete;
  LoopLimit& operator=(const LoopLimit&) = delete;
};

}  // namespace attest::fuzz
