# Rooms: every folder of src/ is a static library that may use the rooms below it and nothing else; the shared library is made
# of the same objects. Tests link rooms, so they see what the shared library hides.

add_library(gpipe-flags INTERFACE)
target_compile_options(gpipe-flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
                                             -fno-math-errno -fno-trapping-math)
target_compile_definitions(gpipe-flags INTERFACE _GNU_SOURCE)
if(GPIPE_WERROR)
  target_compile_options(gpipe-flags INTERFACE -Werror)
endif()
if(GPIPE_SANITIZE)
  target_compile_options(gpipe-flags INTERFACE -fsanitize=${GPIPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(gpipe-flags INTERFACE -fsanitize=${GPIPE_SANITIZE})
endif()

if(GPIPE_FUZZ)
  target_compile_options(gpipe-flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

set_property(GLOBAL PROPERTY GPIPE_ROOMS "")

# gpipe_room(name SOURCES file... [USES room...] [LIBRARIES target...])
function(gpipe_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;USES;LIBRARIES" ${ARGN})
  add_library(gpipe-${name} STATIC ${ROOM_SOURCES})
  target_include_directories(gpipe-${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ROOM_USES PREPEND gpipe-)
  target_link_libraries(gpipe-${name} PUBLIC ${ROOM_USES} PRIVATE gpipe-flags PUBLIC ${ROOM_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY GPIPE_ROOMS gpipe-${name})
endfunction()

# Seconds: it only ends what hangs; machines are busy, and sanitizers are slow.
set(GPIPE_TEST_LIMIT 600)

# gpipe_test(name USES room... [SOURCES file...]): tests/<...>/<name>.c, a cmocka program run by CTest.
function(gpipe_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;USES;LABELS" ${ARGN})
  if(NOT TEST_SOURCES)
    set(TEST_SOURCES ${name}.c)
  endif()
  list(TRANSFORM TEST_USES PREPEND gpipe-)
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${TEST_USES} gpipe-flags PkgConfig::CMOCKA m)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${GPIPE_TEST_LIMIT} LABELS "${TEST_LABELS}")
endfunction()
