# Compiler and linker flags that all targets of this project share.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_ENABLE_EXPORTS ON) # the LibTorch module (analysis/CMakeLists.txt) uses symbols of the program
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# What one build folder has compiled, another need not compile again: paths below the checkout are hashed relative to
# it. Without the sloppiness ccache finds nothing that was compiled with a precompiled header (precompile.cmake).
find_program(ccache ccache NO_CACHE)
if(ccache)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
    CCACHE_SLOPPINESS=pch_defines,time_macros ${ccache})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

add_library(build_flags INTERFACE)
set(cxx $<COMPILE_LANGUAGE:CXX>)
target_compile_options(build_flags INTERFACE
  $<${cxx}:-Wall> $<${cxx}:-Wextra> $<${cxx}:-Wpedantic>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
# __FILE__, which assertions of libraries hold, names no folder of the machine that built the program.
set(prefix_map -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
target_compile_options(build_flags INTERFACE
  $<${cxx}:${prefix_map}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${prefix_map}>)
# Do not link libraries that nothing calls: their static initialisers would cost time at every start.
target_link_options(build_flags INTERFACE -Wl,--as-needed)
target_include_directories(build_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(build_flags INTERFACE ATTEST_HAS_CUDA=$<BOOL:${ATTEST_CUDA}>)
# Fixes one alignment for all sources. nvcc's host compiler gets no -march, and Eigen's types would otherwise have two
# layouts in one program.
target_compile_definitions(build_flags INTERFACE EIGEN_MAX_ALIGN_BYTES=64)

if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(gcc_12 TRUE)
  # GCC 12 falsely reports overlapping copies in its own std::string (GCC bug 105651).
  target_compile_options(build_flags INTERFACE $<${cxx}:-Wno-restrict>)
endif()

# GCC collects garbage when its memory has doubled, from 128 MiB on: headers of templates alone need more.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(less_garbage_collection --param=ggc-min-heapsize=524288) # KiB
  target_compile_options(build_flags INTERFACE
    $<${cxx}:${less_garbage_collection}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${less_garbage_collection}>)
endif()

if(ATTEST_WERROR)
  target_compile_options(build_flags INTERFACE $<${cxx}:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(ATTEST_NATIVE)
  target_compile_options(build_flags INTERFACE $<${cxx}:-march=native>)
  # GCC 12 falsely reports uninitialised variables in its own AVX-512 intrinsics (GCC bug 105593).
  if(gcc_12)
    target_compile_options(build_flags INTERFACE $<${cxx}:-Wno-uninitialized> $<${cxx}:-Wno-maybe-uninitialized>)
  endif()
endif()
if(ATTEST_SANITIZE)
  target_compile_options(build_flags INTERFACE
    $<${cxx}:-fsanitize=${ATTEST_SANITIZE}> $<${cxx}:-fno-sanitize-recover=all> $<${cxx}:-fno-omit-frame-pointer>
    $<${cxx}:-Wno-maybe-uninitialized>) # GCC reports it falsely where the sanitizers have added code
  target_link_options(build_flags INTERFACE -fsanitize=${ATTEST_SANITIZE})
  target_compile_definitions(build_flags INTERFACE _GLIBCXX_ASSERTIONS) # [] and front() beyond the end abort
endif()
if(ATTEST_COVERAGE)
  target_compile_options(build_flags INTERFACE $<${cxx}:--coverage>)
  target_link_options(build_flags INTERFACE --coverage -Wl,-u,__gcov_dump) # loop_limit.cpp calls it
endif()

if(ATTEST_FUZZER)
  target_compile_options(build_flags INTERFACE $<${cxx}:-fsanitize-coverage=trace-pc,trace-cmp>)
endif()

# For code that only parses and prints, and for host code of *.cu: compiles in half the time of -O3 (CLI11 and the JSON
# library are all templates).
add_library(cheap_to_compile INTERFACE)
target_compile_options(cheap_to_compile INTERFACE $<$<AND:${cxx},$<CONFIG:Release>>:-Og>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<CONFIG:Release>>:-Xcompiler=-Og>)
