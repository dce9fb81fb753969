# The fly_rocdl dialect, its instructions, and the lowering to ROCDL.
list(APPEND FLY_CORE_SOURCES
  IR/AsmFormat.cpp
  IR/CopyEmit.cpp
  IR/CopyTypes.cpp
  IR/Dialect.cpp
  IR/EmitUtils.cpp
  IR/LdsCopyEmit.cpp
  IR/MfmaTypes.cpp
  IR/MmaEmit.cpp
  IR/State.cpp
  IR/TdmEmit.cpp
  IR/WmmaTypes.cpp
  Conversion/Atoms.cpp
  Conversion/FlyToROCDL.cpp
  Conversion/Functions.cpp
  Conversion/Memory.cpp
  Conversion/TypeConverter.cpp
  Transforms/ClusterAttr.cpp
  Transforms/ExpandMath.cpp
  Transforms/FastmathOps.cpp)
