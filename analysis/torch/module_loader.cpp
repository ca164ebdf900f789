// Opens the LibTorch module.
#include "analysis/torch/module_loader.h"

#include <dlfcn.h>

#include "dumps/base/error.h"

namespace attest {

void* torch_entry(const char* name, const std::string& what, const std::string& advice) {
  void* module = dlopen(ATTEST_TORCH_MODULE, RTLD_NOW | RTLD_LOCAL);  // the same each time
  void* symbol = module != nullptr ? dlsym(module, name) : nullptr;
  if (symbol == nullptr) throw Error(what + ": cannot be opened: " + dlerror() + "; " + advice);
  return symbol;
}

}  // namespace attest
