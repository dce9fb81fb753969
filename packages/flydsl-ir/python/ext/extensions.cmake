# C++ extensions of flydsl._mlir._mlir_libs, and the generated enums of our dialects.

# Registers dialects and passes. It is apart from the type classes, because the module that
# initialises the package must not import `flydsl._mlir.ir`.
fly_ext(_flyRegister "${CMAKE_SOURCE_DIR}/python/ext" FlyRegister.cpp)

# Type classes (submodules `fly` and `fly_rocdl`) and helper functions.
fly_ext(_flyDialects "${CMAKE_SOURCE_DIR}/python/ext"
  FlyDialects.cpp
  IntTupleArgument.cpp
  LayoutTypes.cpp
  TensorTypes.cpp
  AtomTypes.cpp
  FlyROCDLTypes.cpp
  Helpers.cpp
  KeptOperations.cpp
  DLTensor.cpp)

# dialects/_<dialect>_enum_gen.py
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/dialects")
foreach(entry "fly|FlyEnums.td" "fly_rocdl|FlyROCDLEnums.td")
  string(REPLACE "|" ";" entry "${entry}")
  list(GET entry 0 dialect)
  list(GET entry 1 td)
  set(LLVM_TARGET_DEFINITIONS "${CMAKE_SOURCE_DIR}/python/mlir_fly/dialects/${td}")
  mlir_tablegen(dialects/_${dialect}_enum_gen.py -gen-python-enum-bindings)
  add_public_tablegen_target(FlyPy.${dialect}.enum_tablegen)
  declare_mlir_python_sources(FlyPy.${dialect}.enum_gen ROOT_DIR "${CMAKE_BINARY_DIR}"
    ADD_TO_PARENT FlyPy SOURCES dialects/_${dialect}_enum_gen.py)
endforeach()

# Type stubs of _flyDialects, written by importing it: `ninja fly-stubs`, after which they are
# installed with the package.
set(fly_stub_dir "${FLY_PYTHON_PACKAGE_DIR}/_mlir_libs")
# An isolated build finds nanobind by an import path of its own, which must not be lost here.
set(fly_stub_path "${CMAKE_BINARY_DIR}/python_packages")
if(nanobind_DIR)
  get_filename_component(fly_nanobind_site "${nanobind_DIR}/../.." ABSOLUTE)
  string(APPEND fly_stub_path ":${fly_nanobind_site}")
endif()
add_custom_target(fly-stubs
  COMMAND "${CMAKE_COMMAND}" -E env "PYTHONPATH=${fly_stub_path}"
    "${Python3_EXECUTABLE}" -m nanobind.stubgen --quiet --recursive
    -m flydsl._mlir._mlir_libs._flyDialects -O "${fly_stub_dir}"
  COMMENT "Writing type stubs of _flyDialects" VERBATIM)
add_dependencies(fly-stubs FlyPythonModules)
install(DIRECTORY "${fly_stub_dir}/_flyDialects" DESTINATION "${FLY_LIBS_INSTALL_DIR}"
  COMPONENT FlyPythonModules OPTIONAL FILES_MATCHING PATTERN "*.pyi")
