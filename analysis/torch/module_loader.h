// The LibTorch module: opened on first use, because loading it takes a quarter of a second and only benchmarks need it.
#pragma once

#include <string>

namespace attest {

/// An entry point of the module. Throws Error, "WHAT: cannot be opened: ...; ADVICE", if the module or the entry point
/// is missing.
void* torch_entry(const char* name, const std::string& what, const std::string& advice);

}  // namespace attest
