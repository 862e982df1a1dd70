# AscendCL: CANN's where it is installed and asked for, otherwise the twin's (ascend/twin), which stands for a card.
# The part for CANN follows its documentation and was never run: no machine of this project has CANN or an NPU.

option(WEFT_CANN "Build for Ascend NPUs: needs CANN's environment (source set_env.sh first)" OFF)

# What speaks AscendCL links this.
add_library(weft_acl INTERFACE)
if(WEFT_CANN)
  set(CMAKE_ASC_ARCHITECTURES "dav-2201" CACHE STRING "Architecture of the NPU: 910B")
  find_package(ASC REQUIRED)
  enable_language(ASC)
  find_path(WEFT_ACL_INCLUDE acl/acl.h HINTS $ENV{ASCEND_HOME_PATH}/include REQUIRED)
  find_library(WEFT_ACL_LIBRARY ascendcl HINTS $ENV{ASCEND_HOME_PATH}/lib64 REQUIRED)
  target_include_directories(weft_acl INTERFACE ${WEFT_ACL_INCLUDE})
  target_link_libraries(weft_acl INTERFACE ${WEFT_ACL_LIBRARY})
  target_compile_definitions(weft_acl INTERFACE WEFT_CANN)
  # The kernels, as a binary of the device alone that the program loads: --ascend-kernels. The function is the
  # toolkit's, for what aclrtBinaryLoadFromFile takes; an object of both sides, which a plain library would be, is not.
  ascendc_fatbin_library(weft_kernels_npu ${CMAKE_SOURCE_DIR}/ascend/kernels/weft_kernels.cpp)
  ascendc_include_directories(weft_kernels_npu PRIVATE ${CMAKE_SOURCE_DIR}/ascend/kernels)
else()
  target_link_libraries(weft_acl INTERFACE weft_ascend_twin)
endif()

# weft_ascend_program(TARGET): a program that may use the device. The twin finds kernels among the functions that are
# linked in.
function(weft_ascend_program target)
  if(NOT WEFT_CANN)
    target_link_libraries(${target} PRIVATE weft_ascend_kernels)
  endif()
endfunction()
