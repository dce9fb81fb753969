# Sources of the C interface (include/fly-c).  They become direct sources of the shared library: as
# members of a static archive, functions that only Python uses would be dropped by the linker.
list(APPEND FLY_CORE_SOURCES
  Dialects.cpp
  Attributes.cpp
  LayoutTypes.cpp
  TensorTypes.cpp
  AtomTypes.cpp
  FlyROCDLTypes.cpp
  LLVMOptions.cpp)
