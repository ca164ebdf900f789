# One library per folder, named after the folder, from all its sources.
#
# These are object libraries: a program that links one contains all its objects. Symbols that the LibTorch module
# (analysis/CMakeLists.txt) takes from the program are therefore present even if nothing else uses them. A program must
# list every folder whose objects it needs; include paths and external libraries follow from target_link_libraries.
#
# folder_library(NAME [POSITION_INDEPENDENT] [HEADERS_OF LIBRARY] [NUMERICAL PATTERN...] [PLAIN PATTERN...]
#                [UNFUSED PATTERN...] [ALONE PATTERN...] [ELSEWHERE PATTERN...])
#   POSITION_INDEPENDENT  the objects also go into a shared library
#   HEADERS_OF            takes the precompiled headers of a library of the same flags
#   NUMERICAL  sources that compute: -O3, and compiled one by one, so that the last bit of a result does not depend on
#              what else is inlined
#   PLAIN      those of NUMERICAL that compute no number, or none with more than one operation
#   UNFUSED    sources that compute without fused multiply-add: -O3, and no bit depends on inlining or the processor
#   ALONE      sources that may use the same names for different things, and kernels that take longer than their headers
#   ELSEWHERE  sources of another library
# The others read, parse and print: -Og compiles them in half the time. Most of that time goes into the headers of
# libraries, so where CMAKE_UNITY_BUILD is on, the sources of a subfolder are compiled a few at a time, and standard
# headers are precompiled (precompile.cmake). Preset dev compiles every source alone, so that each includes what it
# needs.
#
# A build without CUDA leaves out *.cu, which have kernels, and the host code around them: sources named *_cuda.cpp or
# cuda_*.cpp, and those of a folder device/. Host code is not in *.cu, because nvcc takes five times as long for it.
include(precompile)
include(unite_sources)
set(cuda_host "(^|/)cuda_[^/]*\\.cpp$|_cuda\\.cpp$|(^|/)device/[^/]*\\.cpp$")
function(make_position_independent target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>) # still inlined
endfunction()

function(folder_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "POSITION_INDEPENDENT" "HEADERS_OF" "NUMERICAL;PLAIN;UNFUSED;ALONE;ELSEWHERE")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/main.cpp)
  list(FILTER sources EXCLUDE REGEX "/torch_[^/]*\\.cpp$")
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS *.cu)
  if(arg_ELSEWHERE)
    file(GLOB elsewhere CONFIGURE_DEPENDS ${arg_ELSEWHERE})
    list(REMOVE_ITEM sources ${elsewhere})
    list(REMOVE_ITEM kernels ${elsewhere})
  endif()
  set(host_of_kernels ${sources})
  list(FILTER host_of_kernels INCLUDE REGEX "${cuda_host}")
  list(REMOVE_ITEM sources ${host_of_kernels})
  if(NOT ATTEST_CUDA)
    set(host_of_kernels)
    set(kernels)
  endif()
  set(all ${sources} ${kernels})
  foreach(kind NUMERICAL PLAIN UNFUSED ALONE) # those of `all` that match the patterns
    set(matches)
    if(arg_${kind})
      file(GLOB matches CONFIGURE_DEPENDS ${arg_${kind}})
    endif()
    set(others ${all})
    list(REMOVE_ITEM others ${matches})
    set(${kind} ${all})
    list(REMOVE_ITEM ${kind} ${others})
  endforeach()
  list(REMOVE_ITEM NUMERICAL ${PLAIN})
  list(REMOVE_ITEM sources ${NUMERICAL} ${UNFUSED} ${ALONE})
  list(REMOVE_ITEM kernels ${ALONE})
  set(unfused ${UNFUSED})
  list(REMOVE_ITEM unfused ${ALONE})
  set(host ${host_of_kernels})
  unite_sources(sources)
  unite_sources(kernels)
  unite_sources(unfused _unfused)
  unite_sources(host _host)
  # The options go to sources and to what unites them, because another library may hold some of the sources.
  # Loops with comparisons vectorise only where no operation counts as trapping. No result depends on it.
  set_source_files_properties(${UNFUSED} ${unfused} PROPERTIES
    COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>;-ffp-contract=off;-fno-trapping-math")
  # As in host code that nvcc compiles, which knows no processor with fused multiply-add.
  set_source_files_properties(${host_of_kernels} ${host} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)

  add_library(${name} OBJECT ${sources} ${kernels} ${host} ${NUMERICAL} ${unfused} ${ALONE})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(${name} PUBLIC build_flags PRIVATE cheap_to_compile)
  if(arg_POSITION_INDEPENDENT)
    make_position_independent(${name})
  endif()
  precompile(${name} ${CMAKE_SOURCE_DIR}/cmake/standard_headers.h ${arg_HEADERS_OF})
  numerical_options(numerical ${name})
  set_source_files_properties(${NUMERICAL} PROPERTIES COMPILE_OPTIONS "${numerical}"
    OBJECT_DEPENDS "${numerical_headers}")
  set_source_files_properties(${NUMERICAL} ${UNFUSED} ${unfused} ${host_of_kernels} ${host} PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON)
  allow_united_types(${name})
endfunction()
