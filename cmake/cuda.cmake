# CUDA: the machine's nvcc, or the one that the wheels bring.
if(NOT ATTEST_CUDA)
  return()
endif()
if(CMAKE_VERSION VERSION_LESS 4.0)
  message(FATAL_ERROR "CMake ${CMAKE_VERSION} does not know C++20 for the CUDA 13 compiler: use .venv/bin/cmake (cmake/setup.sh installs it), or ATTEST_CUDA=OFF.")
endif()

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  cmake_path(GET attest_python PARENT_PATH python_bin)
  file(GLOB wheel_toolkits ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/bin
                           ${python_bin}/../lib/python3*/site-packages/nvidia/cu13/bin)
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV PATH PATHS /usr/local/cuda/bin ${wheel_toolkits})
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "No nvcc in PATH, /usr/local/cuda or .venv: run cmake/setup.sh, or build with ATTEST_CUDA=OFF (preset cpu).")
  endif()
endif()

# Ampere and later by sm_80, Hopper with wgmma by sm_90a (the a), and PTX for what comes after.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual CACHE STRING "GPU architectures" FORCE)
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13.0 REQUIRED)
