# Step 6: `check-fly` runs the lit tests with the fly-opt of this build.
find_program(FLY_LIT NAMES lit lit.py HINTS "${LLVM_TOOLS_BINARY_DIR}")
get_filename_component(fly_python_bin "${Python3_EXECUTABLE}" DIRECTORY)
if(EXISTS "${fly_python_bin}/lit")
  set(FLY_LIT "${fly_python_bin}/lit")
endif()
configure_file("${CMAKE_SOURCE_DIR}/tests/filecheck/lit.site.cfg.py.in"
  "${CMAKE_BINARY_DIR}/test/lit.site.cfg.py" @ONLY)
add_custom_target(check-fly
  COMMAND "${Python3_EXECUTABLE}" "${FLY_LIT}" -sv "${CMAKE_BINARY_DIR}/test"
  DEPENDS fly-opt FlyPythonModules
  USES_TERMINAL
  COMMENT "Running the lit tests of flydsl-ir")
