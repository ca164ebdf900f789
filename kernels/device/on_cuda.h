// References to CUDA functions from code that is also compiled without CUDA.
#pragma once

#include <type_traits>

namespace attest {

/// `function` in a build with CUDA. Null in a build without CUDA, where `function` need not be defined.
template <auto* function>
constexpr auto on_cuda() {
  if constexpr (ATTEST_HAS_CUDA) return function;
  return static_cast<decltype(function)>(nullptr);
}

/// function(arguments...), or a null pointer in a build without CUDA.
template <auto* function, class... Arguments>
auto call_on_cuda(const Arguments&... arguments) -> std::invoke_result_t<decltype(function), const Arguments&...> {
  if constexpr (ATTEST_HAS_CUDA) return function(arguments...);
  return nullptr;
}

}  // namespace attest
