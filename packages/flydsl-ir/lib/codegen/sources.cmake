# Code generator: LLVM dialect to code objects, in process.
list(APPEND FLY_CORE_SOURCES
  ArchTable.cpp
  BankModes.cpp
  BankSearch.cpp
  CheckAssembly.cpp
  Compile.cpp
  CrashGuard.cpp
  Disassemble.cpp
  ExplicitModule.cpp
  ForeignIntrinsics.cpp
  HoldLanes.cpp
  InitAll.cpp
  LaneByLane.cpp
  Link.cpp
  LoadWords.cpp
  LowerSwitches.cpp
  LLVMOptions.cpp
  MergeTraps.cpp
  MixedHalves.cpp
  PollyStub.cpp
  PrintedDoubles.cpp
  RegisterBanks.cpp
  RegisterSwitches.cpp
  RegisterTarget.cpp
  ROCDLTarget.cpp
  Translate.cpp)
