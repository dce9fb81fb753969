# Step 5: upstream MLIR bindings and ours, as the package flydsl._mlir.
#
# The upstream sources (Python and nanobind C++) come from a build requirement; they are compiled
# here with our package prefix and nanobind domain, against FlyPythonCAPI alone.
set(fly_py_src "${FLY_MLIR_PY_SRC}")
if(NOT fly_py_src)
  execute_process(COMMAND "${Python3_EXECUTABLE}" -c
    "import sys,pathlib as P\nprint(next((str(q) for q in (P.Path(p or '.')/'mlir/src/python' for p in sys.path) if q.is_dir()),''),end='')"
    OUTPUT_VARIABLE fly_py_src COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT EXISTS "${fly_py_src}/MLIRPythonExtension.Core/MainModule.cpp")
  message(FATAL_ERROR "no MLIR Python binding sources: install the build requirement of "
    "pyproject.toml or set FLY_MLIR_PY_SRC")
endif()
set(MLIR_BINDINGS_PYTHON_NB_DOMAIN flydsl)
add_compile_definitions("MLIR_PYTHON_PACKAGE_PREFIX=flydsl._mlir.")

declare_mlir_python_sources(FlyPy)
set(groups Core.Python Core.Python.Extras)
foreach(dialect builtin affine arith scf cf func gpu index memref vector math llvm rocdl amdgpu ub)
  list(APPEND groups Dialects.${dialect} Dialects.${dialect}.ops_gen)
endforeach()
foreach(group ${groups})
  set(root "${fly_py_src}/MLIRPythonSources.${group}")
  file(GLOB_RECURSE files RELATIVE "${root}" "${root}/*.py" "${root}/*.pyi" "${root}/*.typed")
  list(REMOVE_ITEM files ir.py dialects/rocdl.py) # below, and in python/mlir_fly
  if(files)
    declare_mlir_python_sources(FlyPy.${group} ROOT_DIR "${root}" ADD_TO_PARENT FlyPy
      SOURCES ${files})
  endif()
endforeach()

# Type stubs of the core extension.
set(stub_root "${fly_py_src}/MLIRPythonExtension.Core.type_stub_gen")
file(GLOB_RECURSE stubs RELATIVE "${stub_root}" "${stub_root}/*.pyi")
if(stubs)
  declare_mlir_python_sources(FlyPy.Core.stubs ROOT_DIR "${stub_root}" ADD_TO_PARENT FlyPy
    SOURCES ${stubs})
endif()

include(FlyPatches) # ir.py, IRCore.cpp, Pass.cpp, Rewrite.cpp -> ${fly_patched_dir}; IRCore.h
declare_mlir_python_sources(FlyPy.Core.Python.ir ROOT_DIR "${fly_patched_dir}"
  ADD_TO_PARENT FlyPy SOURCES ir.py)
set(fly_py_support "${fly_py_src}/MLIRPythonExtension.MLIRPythonSupport")
file(RELATIVE_PATH fly_ir_core_path "${fly_py_support}" "${fly_patched_dir}/IRCore.cpp")
file(RELATIVE_PATH fly_held_path "${fly_py_support}" "${CMAKE_SOURCE_DIR}/python/support/HeldOperations.cpp")

declare_mlir_python_extension(FlyPy.Support _PRIVATE_SUPPORT_LIB MODULE_NAME MLIRPythonSupport
  ADD_TO_PARENT FlyPy ROOT_DIR "${fly_py_support}"
  SOURCES Globals.cpp IRAttributes.cpp IRTypes.cpp "${fly_ir_core_path}" "${fly_held_path}")

# fly_ext(MODULE ROOT SOURCES...): one extension module in flydsl._mlir._mlir_libs.
function(fly_ext module root)
  declare_mlir_python_extension(FlyPy.ext.${module} MODULE_NAME ${module} ADD_TO_PARENT FlyPy
    ROOT_DIR "${root}" SOURCES ${ARGN} PRIVATE_LINK_LIBS LLVMSupport)
endfunction()
file(RELATIVE_PATH fly_patched_path "${fly_py_src}/MLIRPythonExtension.Core" "${fly_patched_dir}")
fly_ext(_mlir "${fly_py_src}/MLIRPythonExtension.Core"
  MainModule.cpp IRAffine.cpp IRInterfaces.cpp "${fly_patched_path}/Pass.cpp" "${fly_patched_path}/Rewrite.cpp")
foreach(name AMDGPU GPU LLVM)
  fly_ext(_mlirDialects${name} "${fly_py_src}/MLIRPythonExtension.Dialects.${name}.Nanobind"
    Dialect${name}.cpp)
endforeach()
fly_ext(_mlirGPUPasses "${fly_py_src}/MLIRPythonExtension.GPUDialectPasses" GPUPasses.cpp)
fly_ext(_flyCodegen "${CMAKE_SOURCE_DIR}/python/codegen" FlyCodegen.cpp)

# Our dialects: python/ext/extensions.cmake calls fly_ext for each C++ extension there;
# python/mlir_fly mirrors the package tree of flydsl._mlir.
include("${CMAKE_SOURCE_DIR}/python/ext/extensions.cmake")
set(fly_py_dir "${CMAKE_SOURCE_DIR}/python/mlir_fly")
file(GLOB_RECURSE fly_py_files CONFIGURE_DEPENDS RELATIVE "${fly_py_dir}"
  "${fly_py_dir}/*.py" "${fly_py_dir}/*.pyi")
declare_mlir_python_sources(FlyPy.sources ROOT_DIR "${fly_py_dir}" ADD_TO_PARENT FlyPy
  SOURCES ${fly_py_files})
foreach(entry "fly|FlyOps.td" "fly_rocdl|FlyROCDLOps.td")
  string(REPLACE "|" ";" entry "${entry}")
  list(GET entry 0 dialect)
  list(GET entry 1 td)
  declare_mlir_dialect_python_bindings(ADD_TO_PARENT FlyPy DIALECT_NAME ${dialect}
    ROOT_DIR "${fly_py_dir}" TD_FILE dialects/${td})
endforeach()

add_mlir_python_modules(FlyPythonModules ROOT_PREFIX "${FLY_PYTHON_PACKAGE_DIR}"
  INSTALL_PREFIX flydsl/_mlir
  DECLARED_SOURCES FlyPy COMMON_CAPI_LINK_LIBS FlyPythonCAPI)

# Most of the time of these files goes into headers that all of them share (an optimisation level
# below -O2 would save a tenth), so several compile as one unit. Not those of MLIRPythonSupport: each
# has so much of its own that together they only take longer than anything else.
foreach(extension _mlir.dso _flyDialects.dso)
  set_target_properties(FlyPythonModules.extension.${extension} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
endforeach()
set_target_properties(nanobind-flydsl PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
