# Script (cmake -P): writes HEADER with the version and the commit, plus "-dirty" if the sources were changed.
# up_to_date.sh looks for changes of the same ones.
set(commit unknown)
if(GIT)
  set(git ${GIT} -C ${SOURCE_DIR})
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    execute_process(COMMAND ${git} status --porcelain -- dumps kernels analysis experiments plots cmake CMakeLists.txt
        CMakePresets.json requirements.txt ":(exclude)*.md"
      OUTPUT_VARIABLE changes)
    set(commit ${head})
    if(changes)
      string(APPEND commit "-dirty")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT [[
#define ATTEST_VERSION "@VERSION@"
#define ATTEST_GIT_COMMIT "@commit@"
#define ATTEST_LIBTORCH_VERSION "@LIBTORCH_VERSION@"
#define ATTEST_SOURCE_DIR "@PACKAGE_ROOT@"
#define ATTEST_PYTHON "@PYTHON@"
]])
