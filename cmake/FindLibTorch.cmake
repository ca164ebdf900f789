# LibTorch from a Python wheel, as plain imported libraries: target LibTorch::LibTorch.
#
# torch's own CMake package is not used: it demands a CUDA toolkit, adds nvcc flags of its own and overwrites
# CMAKE_CUDA_ARCHITECTURES.
execute_process(
  COMMAND ${attest_python} -c
    "from importlib.util import find_spec; print(find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE torch_folder OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(NOT failed)
  find_library(LibTorch_CPU torch_cpu PATHS ${torch_folder}/lib NO_DEFAULT_PATH NO_CACHE)
  file(STRINGS ${torch_folder}/version.py version_line REGEX "^__version__")
  string(REGEX MATCH "[0-9][0-9.]*[0-9]" LibTorch_VERSION "${version_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_CPU VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
    "${attest_python} has no torch: attest tasks, bench model and attest.lm_eval have no operators, and the other \
benches no LibTorch peer. cmake/setup.sh --torch installs it.")
if(NOT LibTorch_FOUND)
  return()
endif()

add_library(LibTorch::LibTorch INTERFACE IMPORTED)
foreach(name torch_cpu c10 torch_cuda c10_cuda)
  set(library ${torch_folder}/lib/lib${name}.so)
  if(EXISTS ${library} AND (ATTEST_CUDA OR NOT name MATCHES cuda))
    add_library(LibTorch::${name} SHARED IMPORTED)
    set_target_properties(LibTorch::${name} PROPERTIES IMPORTED_LOCATION ${library})
    target_link_libraries(LibTorch::LibTorch INTERFACE LibTorch::${name})
  endif()
endforeach()
target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${torch_folder}/include)
# The C++ ABI of the wheels since torch 2.7, which is also the compilers' default.
target_compile_definitions(LibTorch::LibTorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
