#include "dumps/hdf5_handle.h"

namespace attest::hdf5 {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace

Lock::Lock() : lock_(library_mutex()) {
  thread_local const bool silenced = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  (void)silenced;
}

bool Handle::close() noexcept {
  if (id_ < 0) return true;
  const Lock lock;
  return H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)) >= 0;
}

std::string take_error_text() {
  const Lock lock;
  std::string text;
  const auto visit = [](unsigned depth, const H5E_error2_t* error, void* result) -> herr_t {
    auto& out = *static_cast<std::string*>(result);
    if (error->desc == nullptr || *error->desc == '\0') return 0;
    if (depth == 0) out = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &text);
  H5Eclear2(H5E_DEFAULT);
  return text;
}

}  // namespace attest::hdf5
