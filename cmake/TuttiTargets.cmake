# SPDX-License-Identifier: Apache-2.0
# tutti_layer(NAME SOURCES a.cc ... [DEPS other ...] [LIBS lib ...]): one static library `tutti_NAME` per layer.
# Layers include by root-relative path ("src/base/status.h").
function(tutti_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(tutti_${name} STATIC ${ARG_SOURCES})
  target_include_directories(tutti_${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(tutti_${name} PUBLIC tutti_${dep})
  endforeach()
  target_link_libraries(tutti_${name} PUBLIC ${ARG_LIBS})
endfunction()

# tutti_test(NAME SOURCES a_test.cc ... [DEPS layer ...] [LIBS lib ...] [TIMEOUT s] [LABELS l ...]): one GoogleTest
# program `test_NAME` and one ctest entry. Labels: tsan = also run under ThreadSanitizer; nightly = only in ./dev nightly.
function(tutti_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LIBS;LABELS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(test_${name} PRIVATE tutti_${dep})
  endforeach()
  target_link_libraries(test_${name} PRIVATE ${ARG_LIBS} GTest::gtest_main)
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND test_${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" SKIP_REGULAR_EXPRESSION "^SKIPPED ALL")
endfunction()
