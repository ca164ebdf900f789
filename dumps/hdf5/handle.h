// The only header that includes the HDF5 C library: owned identifiers, error text, one lock. It is for .cpp files, not
// for headers that other folders include.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace attest::hdf5 {

/// Debian builds HDF5 without thread safety: hold a Lock around every use of it. It is recursive, so that a Handle may
/// be closed under a lock that its owner holds. The first Lock of a thread also stops HDF5 from printing its errors.
class Lock {
 public:
  Lock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// For a process just forked by a thread that holds a Lock. The inherited mutex is owned by a thread that does not
/// exist in the new process, so Locks do nothing from here on. The process has no other thread.
void stop_locking_in_forked_child();

/// Owns one HDF5 identifier of any kind (file, group, data set, type, property list, ...).
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() { close(); }

  /// False when HDF5 reports a failure, which for a file means that data was not written.
  bool close() noexcept;

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

/// Returns the innermost message of the last HDF5 error, for example "file signature not found", and clears it. Empty
/// when there is none.
std::string take_error_text();

/// Whether an error that take_error_text() took was one of allocation.
bool lacked_memory();

}  // namespace attest::hdf5
