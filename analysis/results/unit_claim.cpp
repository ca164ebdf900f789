// Open file description locks.
#include "analysis/results/unit_claim.h"

#include <fcntl.h>

#include <cerrno>

namespace attest {
namespace {

LockState set_lock(int lock_file, std::int64_t offset, short type, bool wait) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset;
  lock.l_len = 1;
  while (::fcntl(lock_file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) != 0) {
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EACCES ? LockState::held_by_another : LockState::not_supported;
  }
  return LockState::held;
}

}  // namespace

std::int64_t offset_of_lock(const UnitKey& unit) {
  return 2 +
         ((static_cast<std::int64_t>(unit.dump) << 44) | (static_cast<std::int64_t>(unit.sample) << 20) | unit.layer);
}

LockState lock_byte(int lock_file, std::int64_t offset, bool wait) {
  return set_lock(lock_file, offset, F_WRLCK, wait);
}

std::optional<UnitClaim> UnitClaim::of(int lock_file, std::int64_t offset) {
  if (lock_byte(lock_file, offset, false) == LockState::held_by_another) return std::nullopt;
  return UnitClaim(lock_file, offset);
}

UnitClaim::~UnitClaim() {
  if (lock_file_ >= 0) set_lock(lock_file_, offset_, F_UNLCK, false);
}

}  // namespace attest
