# One library per folder, of the folder's name, from every source that lies in it.
#
# Object libraries: what registers itself in a static initialiser would be dropped from a static one. So an executable
# names every folder whose objects it needs; include paths and libraries travel along the edges by themselves.
function(folder_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  if(ATTEST_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS *.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  list(FILTER sources EXCLUDE REGEX "${CMAKE_CURRENT_SOURCE_DIR}/(main\\.cpp$|(.*/)?torch_[^/]*\\.cpp$)")
  if(NOT sources)
    set(sources ${CMAKE_SOURCE_DIR}/cmake/empty.cpp)
  endif()
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PUBLIC build_flags)
endfunction()
