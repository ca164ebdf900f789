# Sets attest_python: the interpreter that runs the Python package and the tests, and whose torch is linked if it has
# one.
if(SKBUILD) # a wheel is being built (pyproject.toml); the interpreter that it is installed for runs the package
  find_package(Python REQUIRED COMPONENTS Interpreter)
  set(attest_python ${Python_EXECUTABLE})
elseif(ATTEST_PYTHON)
  set(attest_python ${ATTEST_PYTHON})
else()
  set(attest_python ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
if(NOT EXISTS ${attest_python})
  message(FATAL_ERROR "No Python at ${attest_python}: run cmake/setup.sh, or set ATTEST_PYTHON to an interpreter.")
endif()
