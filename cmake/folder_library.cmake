# One library per folder, named after the folder, from all its sources.
#
# These are object libraries: a program that links one contains all its objects. Symbols that the LibTorch module
# (analysis/CMakeLists.txt) takes from the program are therefore present even if nothing else uses them. A program must
# list every folder whose objects it needs; include paths and external libraries follow from target_link_libraries.
function(folder_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  if(ATTEST_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS *.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  list(FILTER sources EXCLUDE REGEX "${CMAKE_CURRENT_SOURCE_DIR}/(main\\.cpp$|(.*/)?torch_[^/]*\\.cpp$)")
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PUBLIC build_flags)
endfunction()

# precompile(TARGET HEADER...): parses large library headers once for the target, together with common standard ones.
# Sources include what they need all the same: preset dev compiles without precompiled headers.
function(precompile name)
  set(headers)
  foreach(header ${ARGN} algorithm chrono cmath cstdint filesystem functional map memory mutex optional ranges span
      sstream stdexcept string thread variant vector)
    list(APPEND headers $<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>)
  endforeach()
  target_precompile_headers(${name} PRIVATE ${headers})
endfunction()
