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

# tutti_shared_library(SOURCES a.cc ... [DEPS layer ...] [LIBS lib ...]): libtutti.so.0, target `tutti`, for users
# tutti::tutti. SOURCES hold the exported functions: of a static layer the linker takes only what they call. Users see
# include/ and the symbols marked TUTTI_API, nothing of the layers.
function(tutti_shared_library)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_library(tutti SHARED ${ARG_SOURCES})
  add_library(tutti::tutti ALIAS tutti)
  target_include_directories(tutti
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(tutti PRIVATE $<BUILD_INTERFACE:tutti_${dep}>)
  endforeach()
  target_link_libraries(tutti PRIVATE ${ARG_LIBS})
  target_link_options(tutti PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed)
  if(NOT TUTTI_SANITIZE AND NOT TUTTI_FUZZ)
    target_link_options(tutti PRIVATE -Wl,-z,defs)
  endif()
  target_compile_features(tutti INTERFACE cxx_std_20)
  set_target_properties(tutti PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()

# tutti_test(NAME SOURCES a_test.cc ... [DEPS layer ...] [LIBS lib ...] [TIMEOUT s] [LABELS l ...]): one GoogleTest
# program `test_NAME` and one ctest entry. Labels: tsan = also run under ThreadSanitizer; nightly = only in ./dev
# nightly; release_only = measures time, not run under sanitizers.
add_custom_target(tsan_tests)
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
  if("tsan" IN_LIST ARG_LABELS)
    add_dependencies(tsan_tests test_${name})
  endif()
endfunction()

# tutti_fuzz(NAME SOURCES NAME.cc [DEPS layer ...]): with TUTTI_FUZZ a libFuzzer program fuzz/NAME; otherwise a test
# that feeds it every file of tests/fuzz/corpus/NAME, so that each input that once failed stays tested.
add_custom_target(fuzz_targets)
function(tutti_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${name} PRIVATE tutti_${dep})
  endforeach()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  if(TUTTI_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzz_targets ${name})
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_test(NAME ${name}_replay COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  endif()
endfunction()

# Target check_headers: every header compiled alone, and the C interface as C.
function(tutti_check_headers)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    include/*.h include/*.hpp src/*.h topology/*.h transports/*.h algorithms/*.h perf/*.h tests/*.h)
  set(sources)
  foreach(header ${headers})
    string(REGEX REPLACE "^include/" "" include_path ${header})
    string(MAKE_C_IDENTIFIER ${header} name)
    set(source ${PROJECT_BINARY_DIR}/check_headers/${name}.cc)
    set(content "#include \"${include_path}\"\n#include \"${include_path}\"\n")
    file(CONFIGURE OUTPUT ${source} CONTENT "${content}")
    list(APPEND sources ${source})
    if(header MATCHES "^include/.*\\.h$")
      string(REGEX REPLACE "\\.cc$" ".c" source ${source})
      file(CONFIGURE OUTPUT ${source} CONTENT "${content}")
      list(APPEND sources ${source})
    endif()
  endforeach()
  add_library(check_headers OBJECT EXCLUDE_FROM_ALL ${sources})
  target_include_directories(check_headers PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(check_headers PRIVATE -O0)
endfunction()
