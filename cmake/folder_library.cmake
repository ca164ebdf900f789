# One library per folder, of the folder's name, from every source that lies in it.
#
# Object libraries, whole in every program that links them: what the LibTorch module (analysis/CMakeLists.txt) takes from
# the program is there even if nothing else calls it. A program names each folder whose objects it needs; include paths
# and outside libraries travel along the edges by themselves.
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
