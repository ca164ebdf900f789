# A script (cmake -P): writes HEADER with the version, the commit and whether sources differ from it.
set(commit unknown)
if(GIT)
  execute_process(COMMAND ${GIT} describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT [[
#define ATTEST_VERSION "@VERSION@"
#define ATTEST_GIT_COMMIT "@commit@"
#define ATTEST_SOURCE_DIR "@SOURCE_DIR@"
]])
