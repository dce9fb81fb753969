# Step 4: one shared library holds all the C++ and exports C functions only, so that there is one
# copy of every MLIR TypeID and no C++ symbol that could clash with another package's LLVM.
set(FLY_PYTHON_PACKAGE_DIR "${CMAKE_BINARY_DIR}/python_packages/flydsl/_mlir")
set(FLY_LIBS_INSTALL_DIR flydsl/_mlir/_mlir_libs)

# The C functions must be compiled into the shared library itself: from an archive the linker would
# drop them, since nothing inside refers to them.
fly_collect_sources(fly_capi_sources lib/CAPI)
add_library(FlyPythonCAPI SHARED ${fly_capi_sources}
  lib/codegen/AbsentTargets.cpp lib/codegen/CAPI.cpp lib/codegen/FlyOptMain.cpp)
add_dependencies(FlyPythonCAPI ${fly_tablegen_targets})
if(FLY_PRECOMPILED_HEADERS)
  # The same flags as the core, or its precompiled header would not fit.
  set_target_properties(FlyPythonCAPI PROPERTIES DEFINE_SYMBOL "")
  target_precompile_headers(FlyPythonCAPI REUSE_FROM FlyCore)
endif()
foreach(name IR Debug Interfaces Transforms Target Arith ControlFlow Func GPU LLVM Math MemRef
             ROCDL AMDGPU SCF Vector)
  get_target_property(deps MLIRCAPI${name} INTERFACE_LINK_LIBRARIES)
  target_link_libraries(FlyPythonCAPI PRIVATE
    "-Wl,--whole-archive" "$<TARGET_FILE:MLIRCAPI${name}>" "-Wl,--no-whole-archive" ${deps})
endforeach()
target_link_libraries(FlyPythonCAPI PRIVATE FlyCore)

set(fly_map "${CMAKE_SOURCE_DIR}/cmake/flycapi.map")
target_link_options(FlyPythonCAPI PRIVATE "LINKER:--version-script=${fly_map}"
  "LINKER:--gc-sections" "LINKER:--as-needed" "LINKER:-z,defs" ${fly_small_link_options})
set_target_properties(FlyPythonCAPI PROPERTIES
  LINK_DEPENDS "${fly_map}"
  LIBRARY_OUTPUT_DIRECTORY "${FLY_PYTHON_PACKAGE_DIR}/_mlir_libs"
  INSTALL_RPATH "\$ORIGIN")
install(TARGETS FlyPythonCAPI LIBRARY DESTINATION ${FLY_LIBS_INSTALL_DIR}
  COMPONENT FlyPythonModules)

foreach(tool fly-opt fly-lsp-server)
  add_executable(${tool} tools/${tool}.cpp)
  target_link_libraries(${tool} PRIVATE FlyPythonCAPI)
  set_target_properties(${tool} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin"
    INSTALL_RPATH "\$ORIGIN/../_mlir/_mlir_libs")
  install(TARGETS ${tool} RUNTIME DESTINATION flydsl/_bin COMPONENT FlyPythonModules)
endforeach()
