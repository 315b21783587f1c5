# Installation: library, headers, program, pkg-config file, CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS gpipe EXPORT gpipe-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/gpipe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT gpipe-targets NAMESPACE gpipe:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpipe)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(cmake/gpipe-config.cmake.in gpipe-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpipe)
write_basic_package_version_file(gpipe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gpipe-config.cmake ${PROJECT_BINARY_DIR}/gpipe-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpipe)

configure_file(cmake/gpipe.pc.in gpipe.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gpipe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
