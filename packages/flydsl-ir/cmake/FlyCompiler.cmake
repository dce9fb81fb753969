# Step 0: the compiler, chosen before `project()`.
#
# clang parses MLIR's headers several times faster than GCC and writes a precompiled header of a
# sixth of the size, so the clang that belongs to LLVM 22 is preferred where it is installed and no
# other was asked for. GCC works too. To choose, set CMAKE_<LANG>_COMPILER (for pip:
# `--config-settings cmake.define.CMAKE_CXX_COMPILER=g++`, and likewise for C) or, with CMake alone,
# CC and CXX. Inside pip's build these two mean nothing: the build back end fills them in with the
# compiler of the interpreter.
set(fly_environment_chooses FALSE)
if(NOT DEFINED SKBUILD AND (DEFINED ENV{CC} OR DEFINED ENV{CXX}))
  set(fly_environment_chooses TRUE)
endif()
if(NOT CMAKE_C_COMPILER AND NOT CMAKE_CXX_COMPILER AND NOT fly_environment_chooses)
  find_program(FLY_CLANG NAMES clang-22 HINTS /usr/lib/llvm-22/bin)
  find_program(FLY_CLANGXX NAMES clang++-22 HINTS /usr/lib/llvm-22/bin)
  if(FLY_CLANG AND FLY_CLANGXX)
    set(CMAKE_C_COMPILER "${FLY_CLANG}")
    set(CMAKE_CXX_COMPILER "${FLY_CLANGXX}")
  endif()
endif()
