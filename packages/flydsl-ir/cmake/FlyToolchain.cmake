# Step 1: LLVM, MLIR and lld 22, and the settings of every target built here.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "build type" FORCE)
endif()
# CMake's Release means -O3, which costs build time and size and gains nothing here.
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(LLVM_CONFIG NAMES llvm-config-22 llvm-config REQUIRED)
execute_process(COMMAND ${LLVM_CONFIG} --prefix OUTPUT_VARIABLE fly_prefix
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(FLY_LLVM_PREFIX "${fly_prefix}" CACHE PATH "prefix of LLVM, MLIR and LLD 22")
set(FLY_MLIR_PY_SRC "" CACHE PATH "MLIR Python binding sources (default: the build requirement)")
option(FLY_USE_LLD "link with ld.lld of FLY_LLVM_PREFIX" ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# NO_DEFAULT_PATH: the build requirement also ships an MLIRConfig.cmake, which would be found first.
foreach(package LLVM MLIR LLD)
  string(TOLOWER ${package} dir)
  find_package(${package} REQUIRED CONFIG
    PATHS "${FLY_LLVM_PREFIX}/lib/cmake/${dir}" NO_DEFAULT_PATH)
endforeach()
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "LLVM 22 wanted, found ${LLVM_PACKAGE_VERSION}")
endif()
if(NOT "AMDGPU" IN_LIST LLVM_TARGETS_TO_BUILD)
  message(FATAL_ERROR "this LLVM (${FLY_LLVM_PREFIX}) was built without the AMDGPU target")
endif()

list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
set(LLVM_INSTALL_TOOLCHAIN_ONLY ON) # keeps the sources of the bindings out of the wheel
set(LLVM_RUNTIME_OUTPUT_INTDIR "${CMAKE_BINARY_DIR}/bin")
set(LLVM_LIBRARY_OUTPUT_INTDIR "${CMAKE_BINARY_DIR}/lib")
# lld makes the library smaller and its loading faster at no cost: equal functions become one (as the
# linker of Windows does it with every LLVM there; data keep their addresses), relocations that only
# add the load address are packed (glibc 2.36, which is Debian 12's), and unused functions go.
set(fly_small_link_options)
if(FLY_USE_LLD AND EXISTS "${LLVM_TOOLS_BINARY_DIR}/ld.lld")
  add_link_options("-B${LLVM_TOOLS_BINARY_DIR}" "-fuse-ld=lld" "LINKER:--gc-sections")
  set(fly_small_link_options "LINKER:--icf=all" "LINKER:-z,pack-relative-relocs")
endif()
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)
include(MLIRDetectPythonEnv)
include(AddMLIRPython)
mlir_configure_python_dev_packages()

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS} ${LLD_INCLUDE_DIRS})
include_directories("${CMAKE_SOURCE_DIR}/include" "${CMAKE_BINARY_DIR}/include")
# Unique symbols would be merged across shared libraries whatever their visibility.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
