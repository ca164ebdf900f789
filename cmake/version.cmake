# Writes a header with the definitions ATTEST_VERSION, ATTEST_GIT_COMMIT, ATTEST_LIBTORCH_VERSION, ATTEST_SOURCE_DIR and
# ATTEST_PYTHON, and gives it to the sources that give_version() names. In a wheel ATTEST_SOURCE_DIR and ATTEST_PYTHON
# are empty: the program finds the package around it.
#
# Every build looks up the commit. The header changes only with the commit, so that a new commit recompiles one file.
set(version_header ${CMAKE_BINARY_DIR}/version_macros.h)
find_package(Git QUIET)
if(NOT LibTorch_FOUND)
  set(LibTorch_VERSION "not in this build")
endif()
if(NOT SKBUILD)
  set(paths -D PACKAGE_ROOT=${CMAKE_SOURCE_DIR} -D PYTHON=${attest_python})
endif()
set(write_version ${CMAKE_COMMAND} -D VERSION=${PROJECT_VERSION} "-DLIBTORCH_VERSION=${LibTorch_VERSION}"
  -D SOURCE_DIR=${CMAKE_SOURCE_DIR} ${paths}
  -D HEADER=${version_header} -D GIT=${GIT_EXECUTABLE} -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake)
add_custom_target(version_header COMMAND ${write_version} BYPRODUCTS ${version_header} VERBATIM
  COMMENT "Looking up the commit")

function(give_version source)
  set_source_files_properties(${source} PROPERTIES
    COMPILE_OPTIONS "-include;${version_header}" OBJECT_DEPENDS ${version_header})
endfunction()
