# Sets CMAKE_CUDA_COMPILER to the machine's nvcc if it is new enough, else to the one from the Python wheels.
#
# The build includes this file. Run as a script (cmake -P), it only reports whether there is a compiler, so that the
# set-up and the build use the same test.
function(nvcc_is_new_enough result nvcc)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(NOT text MATCHES "release ([0-9]+)" OR CMAKE_MATCH_1 LESS 13)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
file(GLOB wheel_nvcc ${root}/.venv/lib/python3*/site-packages/nvidia/cu13/bin)
if(DEFINED ENV{CUDACXX} AND NOT CMAKE_CUDA_COMPILER)
  find_program(CMAKE_CUDA_COMPILER $ENV{CUDACXX} VALIDATOR nvcc_is_new_enough)
endif()
find_program(CMAKE_CUDA_COMPILER nvcc PATHS ENV PATH /usr/local/cuda/bin ${wheel_nvcc} NO_DEFAULT_PATH
  VALIDATOR nvcc_is_new_enough)

if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "No nvcc 13 or later in PATH, /usr/local/cuda or .venv: run cmake/setup.sh, or build without "
    "CUDA (preset cpu).")
endif()
