// Runs HDF5 on an untrusted file in a forked process of bounded memory and time. The library has memory errors and
// endless loops on damaged files (1.10.8 dies of about one in a thousand files with one flipped byte); they end that
// process and reach the caller as an InputError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace attest {

struct ChildLimits {
  std::size_t memory_bytes = 0;  ///< address space beyond what this process has now
  unsigned processor_seconds = 0;
};

/// For metadata, which cannot be larger than its file; the allowances are what HDF5 needs for itself, ten times over.
ChildLimits metadata_limits(std::uint64_t file_bytes);
/// For so many bytes of values: decoded chunks pass through three buffers at most; 10 MiB/s is a tenth of what
/// inflating takes.
ChildLimits value_limits(std::uint64_t file_bytes, std::size_t bytes);

/// The child's end: bytes for the parent.
class ChildOutput {
 public:
  explicit ChildOutput(int descriptor) : descriptor_(descriptor) {}
  void write(std::span<const std::byte> bytes);

 private:
  int descriptor_;
};

/// The parent's end.
class ChildInput {
 public:
  explicit ChildInput(int descriptor) : descriptor_(descriptor) {}

  /// Fills `target` until it is full or the child has ended; returns the number of bytes.
  std::size_t read(std::span<std::byte> target);
  /// Everything until the child ends.
  std::string read_all();

 private:
  int descriptor_;
};

/// Forks; `work` runs in the child and `receive` at the same time here. Throws InputError with the sentence of the
/// Error that `work` threw, or, when the child crashed or met a limit, one that names `file` and the object noted last.
/// What `receive` throws passes through. The child sees a copy of all memory but has no other thread: `work` must not
/// wait for one, nor touch a GPU.
void run_in_guarded_child(const std::string& file, const ChildLimits& limits,
                          const std::function<void(ChildOutput&)>& work,
                          const std::function<void(ChildInput&)>& receive);

/// In a guarded child: the object of the file that is being read, for the error message if this is where it dies.
/// Elsewhere it does nothing.
void note_object(std::string_view object);

}  // namespace attest
