"""cmake/cuda.cmake: which GPU architectures are compiled for, the tests' own kernels included."""
import shutil
import subprocess
from pathlib import Path

from cmake_program import CMAKE

ROOT = Path(__file__).resolve().parents[2]
# The compiler is left out.
SCRIPT = """
set(ATTEST_CUDA ON)
set(CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
function(enable_language)
endfunction()
function(find_package)
endfunction()
include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
message("${CMAKE_CUDA_ARCHITECTURES}, tests ${ATTEST_TEST_ARCHITECTURES}")
set(CMAKE_CUDA_ARCHITECTURES 75 CACHE STRING "" FORCE) # -D CMAKE_CUDA_ARCHITECTURES=75
include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
message("${CMAKE_CUDA_ARCHITECTURES}, tests ${ATTEST_TEST_ARCHITECTURES}")
"""


def test_architectures_that_the_user_gives_later_are_those_of_the_tests_too(tmp_path):
    shutil.copy(ROOT / "cmake/cuda.cmake", tmp_path)
    (tmp_path / "find_nvcc.cmake").touch()
    (tmp_path / "script.cmake").write_text(SCRIPT)
    done = subprocess.run([CMAKE, "-P", tmp_path / "script.cmake"], capture_output=True, text=True)
    assert done.stderr.splitlines() == ["80-real;90, tests 80-virtual", "75, tests "], done.stderr
