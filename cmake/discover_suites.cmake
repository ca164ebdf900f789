# Run by the build with -D EXECUTABLE, PREFIX, LABEL, REPORTS, OUT: writes a file for ctest that runs each test suite of
# a GoogleTest executable in a process of its own, whose report goes into the folder REPORTS. gtest_discover_tests()
# starts a process for each test.
execute_process(COMMAND "${EXECUTABLE}" --gtest_list_tests OUTPUT_VARIABLE listed TIMEOUT 60 COMMAND_ERROR_IS_FATAL ANY)
# CTest counts a suite as skipped, whatever its exit status, where this matches: all of its tests were skipped.
set(all_skipped "PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\] [^\n]*\n)+$")
set(lines "")
string(REGEX MATCHALL "(^|\n)[^ \n]+\\." suites "${listed}")
foreach(suite ${suites})
  string(REGEX REPLACE "\n|\\.$" "" suite "${suite}")
  set(name "[==[${PREFIX}${suite}]==]")
  string(APPEND lines "add_test(${name} [==[${EXECUTABLE}]==] [==[--gtest_filter=${suite}.*]==] "
    "[==[--gtest_output=xml:${REPORTS}/${PREFIX}${suite}.xml]==])\n"
    "set_tests_properties(${name} PROPERTIES LABELS ${LABEL} TIMEOUT 900 "
    "SKIP_REGULAR_EXPRESSION [==[${all_skipped}]==])\n")
endforeach()
file(WRITE "${OUT}" "${lines}")
