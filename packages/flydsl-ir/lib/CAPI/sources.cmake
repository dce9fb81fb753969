# Sources of the C interface (include/fly-c).  They become direct sources of the shared library: as
# members of a static archive, functions that only Python uses would be dropped by the linker.
list(APPEND FLY_CORE_SOURCES Dialects.cpp LLVMOptions.cpp)
if(EXISTS "${CMAKE_SOURCE_DIR}/lib/fly/sources.cmake") # BRING-UP GUARD
  list(APPEND FLY_CORE_SOURCES Attributes.cpp LayoutTypes.cpp TensorTypes.cpp AtomTypes.cpp)
endif()
if(EXISTS "${CMAKE_SOURCE_DIR}/lib/fly_rocdl/sources.cmake") # BRING-UP GUARD
  list(APPEND FLY_CORE_SOURCES FlyROCDLTypes.cpp)
endif()
