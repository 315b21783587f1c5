# Finds MPI implementations: GPIPE_MPI_IMPLEMENTATIONS lists those for which a module is built (openmpi, mpich), and for each
# GPIPE_<NAME>_NAME, _INCLUDE_DIRS, _LINK_LIBRARIES and _RUN (the launcher, for tests; perhaps not found).
set(GPIPE_MPI_IMPLEMENTATIONS "")

# An implementation that comes with a pkg-config file of its own. names of the file; launchers.
function(gpipe_find_mpi implementation title)
  cmake_parse_arguments(FIND "" "" "FILES;LAUNCHERS" ${ARGN})
  string(TOUPPER ${implementation} upper)
  pkg_search_module(GPIPE_PC_${upper} QUIET ${FIND_FILES})
  if(NOT GPIPE_PC_${upper}_FOUND)
    return()
  endif()
  find_program(GPIPE_${upper}_RUN NAMES ${FIND_LAUNCHERS})
  set(GPIPE_${upper}_NAME "${title} ${GPIPE_PC_${upper}_VERSION}" PARENT_SCOPE)
  set(GPIPE_${upper}_INCLUDE_DIRS ${GPIPE_PC_${upper}_INCLUDE_DIRS} PARENT_SCOPE)
  set(GPIPE_${upper}_LINK_LIBRARIES ${GPIPE_PC_${upper}_LINK_LIBRARIES} PARENT_SCOPE)
  set(GPIPE_MPI_IMPLEMENTATIONS ${GPIPE_MPI_IMPLEMENTATIONS} ${implementation} PARENT_SCOPE)
endfunction()

if(GPIPE_MPI)
  gpipe_find_mpi(openmpi "Open MPI" FILES ompi-c LAUNCHERS mpirun.openmpi)
  gpipe_find_mpi(mpich "MPICH" FILES mpich LAUNCHERS mpirun.mpich mpiexec.hydra)
endif()
if(GPIPE_MPI_IMPLEMENTATIONS)
  message(STATUS "MPI: ${GPIPE_MPI_IMPLEMENTATIONS}")
else()
  message(STATUS "MPI: none (GPIPE_MPI=${GPIPE_MPI}); runs stay within one process")
endif()
