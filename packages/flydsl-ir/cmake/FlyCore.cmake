# Step 3: TableGen output, dialects, passes and the code generator, in one static library.

# Files into which the generated code of fly's operations is divided: see IR/OpDefinitions.cpp.in.
set(FLY_OP_SHARDS 4)

# Every directory with .td files has a CMakeLists.txt of its own; all its targets are generated
# headers that must exist before the library compiles.
set(fly_tablegen_targets "")
foreach(dir include/fly/IR include/fly/Transforms include/fly_rocdl/IR include/fly_rocdl)
  add_subdirectory(${dir})
  get_property(targets DIRECTORY "${CMAKE_SOURCE_DIR}/${dir}" PROPERTY BUILDSYSTEM_TARGETS)
  list(APPEND fly_tablegen_targets ${targets})
endforeach()

# Each library directory lists its own files: sources.cmake appends them to FLY_CORE_SOURCES, with
# paths relative to that directory.
macro(fly_collect_sources result)
  set(${result} "")
  foreach(dir ${ARGN})
    set(FLY_CORE_SOURCES "")
    include("${CMAKE_SOURCE_DIR}/${dir}/sources.cmake")
    list(TRANSFORM FLY_CORE_SOURCES PREPEND "${CMAKE_SOURCE_DIR}/${dir}/")
    list(APPEND ${result} ${FLY_CORE_SOURCES})
  endforeach()
endmacro()
fly_collect_sources(fly_core_sources lib/fly lib/fly_rocdl lib/codegen)
math(EXPR last_shard "${FLY_OP_SHARDS} - 1")
foreach(shard RANGE ${last_shard})
  set(source "${CMAKE_BINARY_DIR}/lib/fly/IR/OpDefinitions.${shard}.cpp")
  configure_file(lib/fly/IR/OpDefinitions.cpp.in "${source}" @ONLY)
  list(PREPEND fly_core_sources "${source}") # first, since they take longest
endforeach()

fly_write_target_stubs("${CMAKE_BINARY_DIR}/OtherTargetsStub.cpp")
add_library(FlyCore STATIC ${fly_core_sources} "${CMAKE_BINARY_DIR}/OtherTargetsStub.cpp")
add_dependencies(FlyCore ${fly_tablegen_targets})
# As LLVM itself is compiled. (Public, since the C API shares the precompiled header.)
target_compile_options(FlyCore PUBLIC -fno-exceptions)
# Up to six neighbours of these folders compile as one unit: what they all instantiate of MLIR is
# instantiated once. (In the other folders files give something of their own the name that others do.)
foreach(folder lib/fly/Algebra lib/fly/Transforms lib/fly_rocdl/IR)
  set(count 0)
  foreach(source IN LISTS fly_core_sources)
    cmake_path(GET source PARENT_PATH parent)
    if(parent STREQUAL "${CMAKE_SOURCE_DIR}/${folder}")
      math(EXPR unit "${count} / 6")
      math(EXPR count "${count} + 1")
      string(MAKE_C_IDENTIFIER "${folder}_${unit}" unit)
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${unit})
    endif()
  endforeach()
endforeach()
set_target_properties(FlyCore PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
# Three quarters of the time of a file went into parsing MLIR's headers. (ccache caches such files
# with CCACHE_SLOPPINESS=pch_defines,time_macros only; it compiles them otherwise.)
option(FLY_PRECOMPILED_HEADERS "parse the headers of MLIR once" ON)
if(FLY_PRECOMPILED_HEADERS)
  target_precompile_headers(FlyCore PRIVATE "${CMAKE_CURRENT_LIST_DIR}/FlyPrecompiled.h")
endif()
target_link_libraries(FlyCore PUBLIC
  MLIRIR MLIRParser MLIRPass MLIRTransforms MLIRTransformUtils MLIRInferTypeOpInterface
  MLIRSideEffectInterfaces MLIRAMDGPUDialect MLIRAMDGPUTransforms MLIRAffineDialect
  MLIRArithDialect MLIRArithTransforms MLIRControlFlowDialect MLIRControlFlowTransforms
  MLIRDLTIDialect MLIRFuncDialect MLIRFuncInlinerExtension MLIRLLVMIRTransforms
  MLIRGPUDialect MLIRGPUTransforms MLIRLLVMDialect MLIRROCDLDialect MLIRMathDialect
  MLIRMathTransforms MLIRMemRefDialect MLIRSCFDialect MLIRSCFTransforms MLIRUBDialect
  MLIRVectorDialect MLIRVectorTransforms
  MLIRAffineToStandard MLIRAMDGPUToROCDL MLIRArithToLLVM MLIRControlFlowToLLVM MLIRFuncToLLVM
  MLIRGPUToROCDLTransforms MLIRIndexToLLVM MLIRMathToLLVM MLIRMathToROCDL MLIRMemRefToLLVM
  MLIRUBToLLVM MLIRVectorToLLVM MLIRVectorToLLVMPass MLIRVectorToSCF MLIRSCFToControlFlow
  MLIRReconcileUnrealizedCasts MLIRConvertToLLVMPass MLIRROCDLTarget MLIRTargetLLVMIRExport
  MLIRBuiltinToLLVMIRTranslation MLIRGPUToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation
  MLIRROCDLToLLVMIRTranslation MLIROptLib MLIRLspServerLib
  lldELF lldCommon FlyLLVMStatic)
