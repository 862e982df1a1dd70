# Settings and helpers shared by every folder. One folder under src/ is one static library and, with its *_test.cc
# files, one test program. A library links exactly the folders that docs/architecture.md lists for it.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library(weft_options INTERFACE)
target_include_directories(weft_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
# -ffp-contract=off: two instances of one kernel must not differ in bits because only one of them was contracted.
target_compile_options(weft_options INTERFACE -Wall -Wextra -Werror -ffp-contract=off)
target_compile_definitions(weft_options INTERFACE WEFT_VERSION="${PROJECT_VERSION}")
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(weft_options INTERFACE -Wthread-safety)
else()
  # Asio's fences under g++'s TSan and false reports of these two in g++ 12's optimizer.
  target_compile_options(weft_options INTERFACE -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow)
endif()
if(WEFT_SANITIZE)
  target_compile_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all
                                                -fno-omit-frame-pointer)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()

find_package(Threads REQUIRED)
if(WEFT_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  enable_testing()
  add_custom_target(unit_tests)  # all of them, without the program
endif()

# weft_library(NAME [NO_THREADS] [DEPS folders and targets...])
# All *.cc below the folder but *_test.cc form the library weft_NAME; the *_test.cc form NAME_test. NO_THREADS: it starts
# none, so there is nothing to test under the thread sanitizer.
function(weft_library name)
  cmake_parse_arguments(arg "NO_THREADS" "" "DEPS;TEST_DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc *.h)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(weft_${name} STATIC ${sources})
  set_target_properties(weft_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(weft_${name} PUBLIC weft_options ${arg_DEPS})
  if(WEFT_SANITIZE STREQUAL "thread" AND arg_NO_THREADS)
    return()
  endif()
  if(WEFT_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE weft_${name} ${arg_TEST_DEPS} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE WEFT_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
    add_dependencies(unit_tests ${name}_test)
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300)
  endif()
endfunction()
