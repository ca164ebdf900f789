# What experiments/cli/version.cpp alone is told: ATTEST_VERSION, ATTEST_GIT_COMMIT, ATTEST_LIBTORCH_VERSION, ATTEST_SOURCE_DIR,
# ATTEST_PYTHON.
#
# The commit is looked up at every build, and the header changes only when it does: a commit recompiles one file.
set(version_header ${CMAKE_BINARY_DIR}/version_macros.h)
find_package(Git QUIET)
set(write_version ${CMAKE_COMMAND} -D VERSION=${PROJECT_VERSION} -D LIBTORCH_VERSION=${LibTorch_VERSION}
  -D SOURCE_DIR=${CMAKE_SOURCE_DIR} -D PYTHON=${attest_python}
  -D HEADER=${version_header} -D GIT=${GIT_EXECUTABLE} -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake)
add_custom_target(version_header COMMAND ${write_version} BYPRODUCTS ${version_header} VERBATIM
  COMMENT "Looking up the commit")

function(give_version source)
  set_source_files_properties(${source} PROPERTIES
    COMPILE_OPTIONS "-include;${version_header}" OBJECT_DEPENDS ${version_header})
endfunction()
