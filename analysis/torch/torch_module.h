// What the entry points of the LibTorch module have in common.
#pragma once

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <exception>
#include <string>

#include "dumps/base/error.h"

namespace attest {

/// Calls `action`. Returns false if it throws: the text is then in `error`, so that no exception of LibTorch crosses
/// the module's boundary.
template <class Action>
bool has_ended_well(std::string& error, Action&& action) {
  try {
    action();
    return true;
  } catch (const c10::Error& e) {
    error = e.what_without_backtrace();
  } catch (const std::exception& e) {
    error = e.what();
  }
  return false;
}

/// The linker drops libraries that nothing refers to, and LibTorch's CUDA library registers itself when it is loaded.
/// So it must be loaded explicitly. Throws Error.
inline void load_torch_cuda() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    throw Error(std::string("no CUDA in this LibTorch: ") + dlerror());
}

}  // namespace attest
