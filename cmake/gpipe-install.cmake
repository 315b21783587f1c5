# Installation: library, headers, program, pkg-config file, CMake package.
include(GNUInstallDirs)
