// Claims of processes on the units of a study: locks on bytes of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "analysis/study/study.h"

namespace attest {

// Each claim locks one byte of the lock file: byte 0 for the folder, byte 1 for finishing, then one byte per unit.
constexpr std::int64_t kFolderLock = 0;
constexpr std::int64_t kFinishLock = 1;
std::int64_t offset_of_lock(const UnitKey& unit);

enum class LockState : std::uint8_t { held, held_by_another, not_supported };

/// Locks one byte, for the descriptor and not for the process; the kernel unlocks it when the descriptor is closed or
/// the process dies. `wait`: until no other has it.
LockState lock_byte(int lock_file, std::int64_t offset, bool wait);

/// A claim on a unit. The destructor releases it; if the process dies, the kernel does.
class UnitClaim {
 public:
  /// Of a byte that is locked already.
  UnitClaim(int lock_file, std::int64_t offset) : lock_file_(lock_file), offset_(offset) {}
  /// Empty while another process holds it. On a file system without locks everybody gets it.
  static std::optional<UnitClaim> of(int lock_file, std::int64_t offset);

  UnitClaim(UnitClaim&& other) noexcept : lock_file_(std::exchange(other.lock_file_, -1)), offset_(other.offset_) {}
  UnitClaim& operator=(UnitClaim&& other) noexcept {
    std::swap(lock_file_, other.lock_file_);
    std::swap(offset_, other.offset_);
    return *this;
  }
  ~UnitClaim();

 private:
  int lock_file_;
  std::int64_t offset_;
};

}  // namespace attest
