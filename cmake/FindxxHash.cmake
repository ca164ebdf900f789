# xxHash::xxHash: the header only. dumps/base/content_hash.cpp compiles the functions from it; no library is linked.
find_path(xxHash_INCLUDE_DIR xxhash.h HINTS ENV CPATH)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(xxHash REQUIRED_VARS xxHash_INCLUDE_DIR
  REASON_FAILURE_MESSAGE
    "There is no xxhash.h: run cmake/setup.sh, install libxxhash-dev, or name its prefix in CMAKE_PREFIX_PATH.")
mark_as_advanced(xxHash_INCLUDE_DIR)

add_library(xxHash::xxHash INTERFACE IMPORTED)
target_include_directories(xxHash::xxHash SYSTEM INTERFACE ${xxHash_INCLUDE_DIR})
