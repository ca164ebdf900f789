# If ATTEST_CUDA is on, enables CUDA and chooses the GPU architectures to build for.
if(NOT ATTEST_CUDA)
  return()
endif()
include(find_nvcc)

# Every architecture is one more compilation of all kernels. ATTEST_NATIVE therefore builds for this machine's GPU alone
# where there is one. Else: sm_80 for Ampere and Ada, sm_90 for Hopper, and its PTX for later GPUs.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(architectures 80-real 90)
  set(test_architectures 80-virtual)  # tests run where there is a GPU, whose driver compiles them
  if(ATTEST_NATIVE)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE capabilities OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed AND capabilities MATCHES "^[0-9.\n]+$")
      string(REGEX MATCHALL "[0-9]+\\.[0-9]+" architectures "${capabilities}")
      list(TRANSFORM architectures REPLACE "([0-9]+)\\.([0-9]+)" "\\1\\2-real")
      list(REMOVE_DUPLICATES architectures)
      set(test_architectures ${architectures})
    endif()
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${architectures} CACHE STRING "GPU architectures" FORCE)
  set(ATTEST_CHOSEN_ARCHITECTURES ${architectures} CACHE INTERNAL "Those chosen here")
  set(ATTEST_TEST_ARCHITECTURES ${test_architectures} CACHE INTERNAL "GPU architectures of the tests' own kernels")
endif()
if(NOT "${CMAKE_CUDA_ARCHITECTURES}" STREQUAL "${ATTEST_CHOSEN_ARCHITECTURES}")
  unset(ATTEST_TEST_ARCHITECTURES CACHE)  # the user's own, perhaps given to a build folder that had those chosen here
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13.0 REQUIRED)
