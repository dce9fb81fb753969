# Step 2: link LLVM, MLIR and lld statically.
#
# The distribution's exported targets name the shared libLLVM. Mixed with the static archives,
# command-line options would be registered twice, so their interfaces are rewritten here.
llvm_map_components_to_libnames(fly_llvm_libs
  AMDGPUCodeGen AMDGPUAsmParser AMDGPUDesc AMDGPUInfo AMDGPUDisassembler
  AsmPrinter BitReader BitWriter CodeGen Core DebugInfoDWARF DTLTO FrontendOffloading
  FrontendOpenACC FrontendOpenMP IRReader Linker LTO MC MCDisassembler MCParser Object Option
  Passes Remarks Support SupportLSP TargetParser TransformUtils WindowsDriver)
add_library(FlyLLVMStatic INTERFACE)
target_link_libraries(FlyLLVMStatic INTERFACE ${fly_llvm_libs})

# A wheel must not need what it does not carry: zlib is linked statically too, where its archive is.
find_library(FLY_ZLIB_STATIC NAMES libz.a)

function(fly_relink target)
  get_target_property(libs ${target} INTERFACE_LINK_LIBRARIES)
  if(libs)
    list(TRANSFORM libs REPLACE "^LLVM$" FlyLLVMStatic)
    list(TRANSFORM libs REPLACE "^MLIR$" MLIRSupport)
    list(TRANSFORM libs REPLACE "^zstd::libzstd_shared$" zstd::libzstd_static)
    if(FLY_ZLIB_STATIC)
      list(TRANSFORM libs REPLACE "^(ZLIB::ZLIB|z|-lz)$" "${FLY_ZLIB_STATIC}")
    endif()
    list(FILTER libs EXCLUDE REGEX "libz3|^Polly$")
    set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${libs}")
  endif()
endfunction()
foreach(target ${MLIR_EXPORTED_TARGETS} lldELF lldCommon LLVMSupport LLVMExtensions)
  if(TARGET ${target})
    fly_relink(${target})
  endif()
endforeach()

# lld's start-up code calls LLVMInitialize<Target>* for every target of this LLVM; empty functions
# for all but AMDGPU keep the other back ends out of the library.
function(fly_write_target_stubs output)
  set(stub "// Generated: targets that lld names but that are not linked.\n")
  foreach(entry "LLVM_TARGET|Targets|Target;TargetInfo;TargetMC"
                "LLVM_ASM_PRINTER|AsmPrinters|AsmPrinter"
                "LLVM_ASM_PARSER|AsmParsers|AsmParser")
    string(REGEX MATCH "^([^|]*)[|]([^|]*)[|](.*)$" _ "${entry}")
    set(macro ${CMAKE_MATCH_1})
    set(functions ${CMAKE_MATCH_3})
    file(STRINGS "${LLVM_INCLUDE_DIR}/llvm/Config/${CMAKE_MATCH_2}.def" lines
      REGEX "^${macro}\\(")
    foreach(line ${lines})
      string(REGEX REPLACE "^${macro}\\(([A-Za-z0-9_]+)\\).*" "\\1" name "${line}")
      if(NOT name STREQUAL "AMDGPU")
        foreach(f ${functions})
          string(APPEND stub "extern \"C\" void LLVMInitialize${name}${f}() {}\n")
        endforeach()
      endif()
    endforeach()
  endforeach()
  file(GENERATE OUTPUT "${output}" CONTENT "${stub}")
endfunction()
