# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: library, public headers, programs, and the files that find_package(tutti) and pkg-config read.
include(CMakePackageConfigHelpers)

set(TUTTI_PROGRAMS
  tutti-program all_gather_perf all_reduce_perf alltoall_perf alltoallv_perf barrier_perf broadcast_perf gather_perf
  hypercube_perf reduce_perf reduce_scatter_perf scatter_perf sendrecv_perf)

install(TARGETS tutti EXPORT tutti-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(program ${TUTTI_PROGRAMS})
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
install(EXPORT tutti-targets NAMESPACE tutti:: DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tutti-config.cmake.in ${PROJECT_BINARY_DIR}/tutti-config.cmake
  INSTALL_DESTINATION ${package_folder})
# Before 1.0 a minor version may break the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tutti-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tutti-config.cmake ${PROJECT_BINARY_DIR}/tutti-config-version.cmake
  DESTINATION ${package_folder})
file(RELATIVE_PATH TUTTI_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
