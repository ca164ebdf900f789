// Runs HDF5 on an untrusted file in a forked process with limits on memory and time. On damaged files the library has
// memory errors and endless loops (1.10.8 crashes on some files with one flipped byte). These end only the child, and
// the caller gets an InputError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dumps/hdf5/child_limits.h"

namespace attest {

/// The child's end of the pipe.
class ChildOutput {
 public:
  explicit ChildOutput(int descriptor) : descriptor_(descriptor) {}
  void write(std::span<const std::byte> bytes);

 private:
  int descriptor_;
};

/// The parent's end of the pipe.
class ChildInput {
 public:
  ChildInput(int descriptor, std::string file) : descriptor_(descriptor), file_(std::move(file)) {}

  /// Fills `target` until it is full or the child has ended; returns the number of bytes.
  std::size_t read(std::span<std::byte> target);
  /// Reads everything until the child ends. Throws InputError beyond `max_bytes`.
  std::string read_all(std::size_t max_bytes);

 private:
  int descriptor_;
  std::string file_;  ///< for messages
};

/// Forks. `work` runs in the child while `receive` runs here. Throws InputError with the message of the Error that
/// `work` threw. If the child crashed or exceeded a limit, the InputError names `file` and the object noted last.
/// Exceptions of `receive` pass through. The child has a copy of all memory but no other thread: `work` must not wait
/// for one, nor use a GPU.
void run_in_guarded_child(const std::string& file, const ChildLimits& limits,
                          const std::function<void(ChildOutput&)>& work,
                          const std::function<void(ChildInput&)>& receive);

/// From here on run_in_guarded_child() makes no child: `work` runs in this process, limited in memory alone, then
/// `receive`. For programs that are watched themselves and read thousands of made files a second; a crash of HDF5 ends
/// them.
void make_no_guarded_children(bool none = true);

/// In a guarded child: notes the object of the file that is about to be read, for the error message if the child dies
/// there. Elsewhere it does nothing.
void note_object(std::string_view object);

}  // namespace attest
