# SPDX-License-Identifier: Apache-2.0
# The objects compiled with AVX flags may export their kernel table and nothing else: a weak symbol (an inline function of
# some header) would be merged with its namesakes by the linker and run on processors without AVX.
# cmake -DNM=nm -DOBJECTS="a.o;b.o" -P symbols.cmake
set(targets 0)
foreach(object ${OBJECTS})
  if(NOT object MATCHES "target_[a-z0-9]+\\.cc")
    continue()
  endif()
  math(EXPR targets "${targets} + 1")
  execute_process(COMMAND ${NM} --extern-only --defined-only ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
  list(LENGTH lines count)
  if(NOT count EQUAL 1 OR NOT lines MATCHES "Kernels")
    message(FATAL_ERROR "${object} must export its kernel table only, but exports:\n${symbols}")
  endif()
endforeach()
if(targets LESS 1)
  message(FATAL_ERROR "no target objects among: ${OBJECTS}")
endif()
