// An owned POSIX file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace attest {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  /// Returns false when the system reports that data was not written.
  bool close() noexcept { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0; }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

}  // namespace attest
