# Sets attest_python: the interpreter whose torch is linked, and which runs attest import, attest capture and the
# Python tests.
if(ATTEST_PYTHON)
  set(attest_python ${ATTEST_PYTHON})
else()
  set(attest_python ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
if(NOT EXISTS ${attest_python})
  message(FATAL_ERROR "No Python at ${attest_python}: run cmake/setup.sh, or set ATTEST_PYTHON to an interpreter that has torch.")
endif()
