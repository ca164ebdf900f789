# One library per folder, named after the folder, from all its sources.
#
# These are object libraries: a program that links one contains all its objects. Symbols that the LibTorch module
# (analysis/CMakeLists.txt) takes from the program are therefore present even if nothing else uses them. A program must
# list every folder whose objects it needs; include paths and external libraries follow from target_link_libraries.
#
# folder_library(NAME [POSITION_INDEPENDENT] [NUMERICAL PATTERN...] [ALONE PATTERN...])
#   POSITION_INDEPENDENT  the objects also go into a shared library
#   NUMERICAL  sources that compute: -O3, and compiled one by one, so that the last bit of a result does not depend on
#              what else is inlined
#   ALONE      sources that may use the same names for different things
# The others read, parse and print: -O1 compiles them in half the time. Most of that time goes into the headers of
# libraries, so where CMAKE_UNITY_BUILD is on, the sources of a subfolder are compiled a few at a time. Preset dev
# compiles every source alone, so that each includes what it needs.
#
# A build without CUDA leaves out *.cu, which have kernels, and the host code around them: sources named *_cuda.cpp or
# cuda_*.cpp, and those of a folder device/. Host code is not in *.cu, because nvcc takes five times as long for it.
set(cuda_host "(^|/)cuda_[^/]*\\.cpp$|_cuda\\.cpp$|(^|/)device/")
function(folder_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "POSITION_INDEPENDENT" "" "NUMERICAL;ALONE")
  set(matching RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS)
  file(GLOB_RECURSE sources ${matching} *.cpp)
  list(FILTER sources EXCLUDE REGEX "^main\\.cpp$|(^|/)torch_[^/]*\\.cpp$")
  set(cuda_host_sources ${sources})
  list(FILTER cuda_host_sources INCLUDE REGEX "${cuda_host}")
  list(FILTER sources EXCLUDE REGEX "${cuda_host}")
  if(ATTEST_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS *.cu)
    list(APPEND cuda_sources ${cuda_host_sources})
    # As in host code that nvcc compiles, which knows no processor with fused multiply-add.
    set_source_files_properties(${cuda_host_sources} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
  endif()
  add_library(${name} OBJECT ${sources} ${cuda_sources})
  target_link_libraries(${name} PUBLIC build_flags PRIVATE cheap_to_compile)
  if(arg_POSITION_INDEPENDENT)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>) # still inlined
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP) # sources without a group are compiled alone
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC takes a type of an included source's anonymous namespace for one of a header.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()

  set(numerical)
  set(alone)
  if(arg_NUMERICAL)
    file(GLOB numerical ${matching} ${arg_NUMERICAL})
    list(FILTER numerical EXCLUDE REGEX "${cuda_host}")
    set_source_files_properties(${numerical} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  endif()
  if(arg_ALONE)
    file(GLOB alone ${matching} ${arg_ALONE})
  endif()
  list(REMOVE_ITEM sources ${numerical} ${alone})
  foreach(source ${sources})
    get_filename_component(subfolder ${source} DIRECTORY)
    math(EXPR count_${subfolder} "0${count_${subfolder}} + 1")
    math(EXPR group "${count_${subfolder}} / 8")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${subfolder}_${group}")
  endforeach()
endfunction()
