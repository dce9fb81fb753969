# Step 3: TableGen output, dialects, passes and the code generator, in one static library.

# Every directory with .td files has a CMakeLists.txt of its own; all its targets are generated
# headers that must exist before the library compiles.
set(fly_tablegen_targets "")
macro(fly_add_tablegen dir main)
  if(EXISTS "${CMAKE_SOURCE_DIR}/${dir}/CMakeLists.txt" AND EXISTS "${CMAKE_SOURCE_DIR}/${dir}/${main}") # BRING-UP GUARD
    add_subdirectory(${dir})
    get_property(fly_targets DIRECTORY "${CMAKE_SOURCE_DIR}/${dir}" PROPERTY BUILDSYSTEM_TARGETS)
    list(APPEND fly_tablegen_targets ${fly_targets})
  else()
    message(WARNING "missing ${dir}/CMakeLists.txt or ${main}")
  endif()
endmacro()
fly_add_tablegen(include/fly/IR FlyOps.td)
fly_add_tablegen(include/fly/Transforms Passes.td)
fly_add_tablegen(include/fly_rocdl/IR FlyROCDLOps.td)
fly_add_tablegen(include/fly_rocdl Passes.td)
# Each library directory lists its own files: sources.cmake appends to FLY_CORE_SOURCES, with paths
# absolute or relative to that directory.
set(fly_all_sources "")
macro(fly_add_sources dir)
  if(EXISTS "${CMAKE_SOURCE_DIR}/${dir}/sources.cmake") # BRING-UP GUARD
    set(FLY_CORE_SOURCES "")
    include("${CMAKE_SOURCE_DIR}/${dir}/sources.cmake")
    foreach(file ${FLY_CORE_SOURCES})
      set(found "")
      foreach(base "" "${CMAKE_SOURCE_DIR}/${dir}/" "${CMAKE_SOURCE_DIR}/")
        if(EXISTS "${base}${file}" AND NOT IS_DIRECTORY "${base}${file}")
          set(found "${base}${file}")
          break()
        endif()
      endforeach()
      if(found)
        list(APPEND fly_all_sources "${found}")
      else()
        message(WARNING "missing ${dir}/${file}") # BRING-UP GUARD
      endif()
    endforeach()
  else()
    message(WARNING "missing ${dir}/sources.cmake")
  endif()
endmacro()
fly_add_sources(lib/fly)
if(EXISTS "${CMAKE_SOURCE_DIR}/lib/fly/sources.cmake") # BRING-UP GUARD
  fly_add_sources(lib/fly_rocdl)
endif()
fly_add_sources(lib/codegen)
if(EXISTS "${CMAKE_SOURCE_DIR}/lib/fly/sources.cmake")
  add_compile_definitions(FLY_HAVE_FLY)
endif()
if(EXISTS "${CMAKE_SOURCE_DIR}/lib/fly/sources.cmake")
  add_compile_definitions(FLY_HAVE_FLY_ROCDL)
endif()

fly_write_target_stubs("${CMAKE_BINARY_DIR}/OtherTargetsStub.cpp")
add_library(FlyCore STATIC ${fly_all_sources} "${CMAKE_BINARY_DIR}/OtherTargetsStub.cpp")
if(fly_tablegen_targets)
  add_dependencies(FlyCore ${fly_tablegen_targets})
endif()
target_link_libraries(FlyCore PUBLIC
  MLIRIR MLIRParser MLIRPass MLIRTransforms MLIRTransformUtils MLIRInferTypeOpInterface
  MLIRSideEffectInterfaces MLIRAMDGPUDialect MLIRAMDGPUTransforms MLIRAffineDialect
  MLIRArithDialect MLIRArithTransforms MLIRControlFlowDialect MLIRDLTIDialect MLIRFuncDialect
  MLIRGPUDialect MLIRGPUTransforms MLIRLLVMDialect MLIRROCDLDialect MLIRMathDialect
  MLIRMathTransforms MLIRMemRefDialect MLIRSCFDialect MLIRSCFTransforms MLIRUBDialect
  MLIRVectorDialect MLIRVectorTransforms
  MLIRAffineToStandard MLIRAMDGPUToROCDL MLIRArithToLLVM MLIRControlFlowToLLVM MLIRFuncToLLVM
  MLIRGPUToROCDLTransforms MLIRIndexToLLVM MLIRMathToLLVM MLIRMathToROCDL MLIRMemRefToLLVM
  MLIRUBToLLVM MLIRVectorToLLVM MLIRVectorToLLVMPass MLIRVectorToSCF MLIRSCFToControlFlow
  MLIRReconcileUnrealizedCasts MLIRConvertToLLVMPass MLIRROCDLTarget MLIRTargetLLVMIRExport
  MLIRBuiltinToLLVMIRTranslation MLIRGPUToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation
  MLIRROCDLToLLVMIRTranslation MLIROptLib
  lldELF lldCommon FlyLLVMStatic)
