// How code that every build compiles names CUDA functions that only some builds have.
#pragma once

#include <type_traits>

namespace attest {

/// `function` in a build with CUDA; null in a build without, which then need not define it.
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
