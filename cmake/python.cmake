# Sets attest_python: the interpreter that runs attest import, attest capture and the Python tests, and whose torch is
# linked if it has one.
if(ATTEST_PYTHON)
  set(attest_python ${ATTEST_PYTHON})
else()
  set(attest_python ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
if(NOT EXISTS ${attest_python})
  message(FATAL_ERROR "No Python at ${attest_python}: run cmake/setup.sh, or set ATTEST_PYTHON to an interpreter.")
endif()
