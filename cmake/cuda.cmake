# If ATTEST_CUDA is on, enables CUDA and chooses the GPU architectures to build for.
if(NOT ATTEST_CUDA)
  return()
endif()
include(find_nvcc)

# sm_80 for Ampere and Ada, sm_90a for Hopper (wgmma requires the a), and PTX for later GPUs.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual CACHE STRING "GPU architectures" FORCE)
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13.0 REQUIRED)
