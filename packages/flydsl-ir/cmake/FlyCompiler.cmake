# Step 0: the compiler, chosen before `project()`.
#
# clang parses MLIR's headers several times faster than GCC and writes a precompiled header of a
# sixth of the size, so the clang that belongs to LLVM 22 is preferred where it is installed and
# nothing else was asked for (CC/CXX or CMAKE_<LANG>_COMPILER). GCC works too.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX} AND NOT CMAKE_C_COMPILER AND NOT DEFINED ENV{CC})
  find_program(FLY_CLANG NAMES clang-22 HINTS /usr/lib/llvm-22/bin)
  find_program(FLY_CLANGXX NAMES clang++-22 HINTS /usr/lib/llvm-22/bin)
  if(FLY_CLANG AND FLY_CLANGXX)
    set(CMAKE_C_COMPILER "${FLY_CLANG}")
    set(CMAKE_CXX_COMPILER "${FLY_CLANGXX}")
  endif()
endif()
