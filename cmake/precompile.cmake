# precompile(TARGET HEADER [OWNER]): HEADER is parsed once for TARGET, or it was for OWNER, a target of the same flags.
# Standard headers take more than half of the time of a short source. Sources include what they need all the same:
# preset dev compiles without precompiled headers. GCC 12 fails in sources whose options differ from the header's: they
# have the property SKIP_PRECOMPILE_HEADERS.
function(precompile target header)
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "") # else each program of exports has a macro of its own
  if(ARGN)
    target_precompile_headers(${target} REUSE_FROM ${ARGN})
  else()
    target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${header}>)
  endif()
  if(ccache AND CMAKE_CXX_COMPILER_ID STREQUAL GNU) # else ccache finds nothing again
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()

# numerical_options(OPTIONS TARGET): the options of TARGET's sources that compute, with standard headers precompiled for
# them, and the file that they depend on in OPTIONS_headers. A target of CMake has headers for one set of options, so
# that those for -O3 are of a target of their own; one for position-independent code, and one for other.
function(numerical_options options target)
  set(${options} $<$<CONFIG:Release>:-O3> PARENT_SCOPE)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  get_target_property(independent ${target} POSITION_INDEPENDENT_CODE)
  if(independent)
    set(owner numerical_headers_pic)
  else()
    set(owner numerical_headers)
  endif()
  if(NOT TARGET ${owner})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${owner}.cpp CONTENT "")
    add_library(${owner} OBJECT ${CMAKE_BINARY_DIR}/${owner}.cpp)
    target_link_libraries(${owner} PRIVATE build_flags fmt::fmt)
    target_compile_options(${owner} PRIVATE $<$<CONFIG:Release>:-O3>)
    if(independent)
      make_position_independent(${owner})
    endif()
    precompile(${owner} ${CMAKE_SOURCE_DIR}/cmake/standard_headers.h)
  endif()
  get_target_property(folder ${owner} BINARY_DIR)
  set(headers ${folder}/CMakeFiles/${owner}.dir/cmake_pch.hxx)
  set(${options} $<$<CONFIG:Release>:-O3> -include ${headers} PARENT_SCOPE)
  set(${options}_headers ${headers}.gch PARENT_SCOPE)
endfunction()
