// Lock, Handle and the text of HDF5 errors.
#include "dumps/hdf5/handle.h"

#include <algorithm>
#include <string_view>

namespace attest::hdf5 {
namespace {

bool locking = true;
bool no_memory = false;  // under a Lock

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace

void stop_locking_in_forked_child() { locking = false; }

Lock::Lock() {
  if (locking) lock_ = std::unique_lock(library_mutex());
  // Disables HDF5's exit handler: it crashes (1.10.8) when a file could not be closed, as on a full disk. Owners close
  // their files.
  [[maybe_unused]] static const bool without_exit_handler = H5dont_atexit() >= 0;
  [[maybe_unused]] thread_local const bool silenced = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
}

bool Handle::close() noexcept {
  if (id_ < 0) return true;
  const Lock lock;
  return H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)) >= 0;
}

std::string take_error_text() {
  const Lock lock;
  std::string text;
  const auto keep_first = [](unsigned depth, const H5E_error2_t* error, void* result) -> herr_t {
    no_memory = no_memory || error->maj_num == H5E_RESOURCE || error->min_num == H5E_CANTALLOC;
    if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(result) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  H5Eclear2(H5E_DEFAULT);
  // For a failed read or write HDF5 prints times, buffers and sizes in two lines. Only the system's message among them
  // is useful.
  constexpr std::string_view kSystemMessage = "error message = '";
  if (const std::size_t at = text.find(kSystemMessage); at != std::string::npos) {
    text.erase(0, at + kSystemMessage.size());
    text.erase(std::min(text.find('\''), text.size()));
  }
  return text;
}

bool lacked_memory() {
  const Lock lock;
  return no_memory;
}

}  // namespace attest::hdf5
