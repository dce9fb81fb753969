//===- FlyCodegen.cpp - Python extension of the code generator ------------===//
//
// Compilation releases the GIL.
//
//===----------------------------------------------------------------------===//
#include "fly_codegen/CodegenCAPI.h"

#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

namespace {

void append(MlirStringRef text, void *data) {
  static_cast<std::string *>(data)->append(text.data, text.length);
}

std::string str(MlirStringRef text) { return std::string(text.data, text.length); }

/// Runs `compile(output, outputData, diagnostics, diagnosticsData)`; gives (bytes, warnings).
template <typename Compile> nb::tuple run(Compile compile) {
  std::string output, diagnostics;
  MlirLogicalResult result;
  {
    nb::gil_scoped_release release;
    result = compile(append, &output, append, &diagnostics);
  }
  if (mlirLogicalResultIsFailure(result))
    throw std::runtime_error(diagnostics);
  return nb::make_tuple(nb::bytes(output.data(), output.size()), diagnostics);
}

/// Options as Python gives them, and the views of their strings that the C interface takes.
struct Options {
  std::string arch, features, wavesPerEU;
  std::vector<std::string> libraries, llvmOptions; // names and values in turn
  std::vector<MlirStringRef> libraryRefs, llvmOptionRefs;
  double seconds[2] = {0, 0};
  FlyCodegenOptions c;

  explicit Options(const nb::dict &from) {
    arch = nb::cast<std::string>(from["arch"]);
    features = nb::cast<std::string>(from["features"]);
    wavesPerEU = nb::cast<std::string>(from["waves_per_eu"]);
    for (nb::handle library : from["libraries"]) {
      auto bytes = nb::cast<nb::bytes>(library);
      libraries.emplace_back(bytes.c_str(), bytes.size());
    }
    for (nb::handle text : from["llvm_options"])
      llvmOptions.push_back(nb::cast<std::string>(text));
    for (const std::string &text : libraries)
      libraryRefs.push_back(ref(text));
    for (const std::string &text : llvmOptions)
      llvmOptionRefs.push_back(ref(text));
    int output = nb::cast<int>(from["output"]);
    if (output < FlyCodegenLLVMIR || output > FlyCodegenHSACO)
      throw nb::value_error("unknown kind of output");
    c = {ref(arch), ref(features), nb::cast<int>(from["opt_level"]),
         static_cast<FlyCodegenOutput>(output), ref(wavesPerEU),
         nb::cast<bool>(from["fast_math"]), nb::cast<bool>(from["debug_info"]),
         static_cast<intptr_t>(libraryRefs.size()), libraryRefs.data(),
         static_cast<intptr_t>(llvmOptionRefs.size() / 2), llvmOptionRefs.data(), seconds};
  }
  Options(const Options &) = delete;

  static MlirStringRef ref(const std::string &text) {
    return mlirStringRefCreate(text.data(), text.size());
  }
};

nb::list archTable() {
  nb::list table;
  for (intptr_t i = 0, n = flyArchCount(); i < n; ++i) {
    FlyArchInfo info = flyArchGet(i);
    nb::dict row;
    row["name"] = str(info.name);
    row["family"] = str(info.family);
    row["wave_size"] = info.waveSize;
    row["lds_bytes"] = info.ldsBytes;
    row["lds_banks"] = info.ldsBanks;
    row["max_threads_per_block"] = info.maxThreadsPerBlock;
    row["max_waves_per_simd"] = info.maxWavesPerSimd;
    row["simds_per_cu"] = info.simdsPerCU;
    row["vgprs_per_wave"] = info.vgprsPerWave;
    row["vgprs_per_simd"] = info.vgprsPerSimd;
    row["buffer_rsrc_flags"] = info.bufferRsrcFlags;
    row["buffer_rsrc_flags_checked"] = info.bufferRsrcFlagsChecked;
    nb::list features;
    for (intptr_t bit = 0; flyArchFeatureName(bit).data; ++bit)
      if (info.features >> bit & 1)
        features.append(str(flyArchFeatureName(bit)));
    row["features"] = features;
    table.append(row);
  }
  return table;
}

} // namespace

NB_MODULE(_flyCodegen, m) {
  m.doc() = "AMDGPU code generation in process; use flydsl.ir.";
  // Both give (bytes, warnings, seconds of compiling, seconds of linking).
  m.def(
      "compile_operation",
      [](MlirOperation op, nb::dict from) {
        Options options(from);
        nb::tuple result = run(
            [&](auto... sinks) { return flyCodegenCompileOperation(op, options.c, sinks...); });
        return nb::make_tuple(result[0], result[1], options.seconds[0], options.seconds[1]);
      },
      nb::arg("op"), nb::arg("options"));
  m.def(
      "compile_llvm_ir",
      [](const std::string &text, nb::dict from) {
        Options options(from);
        MlirStringRef ir = Options::ref(text);
        nb::tuple result = run(
            [&](auto... sinks) { return flyCodegenCompileLLVMIR(ir, options.c, sinks...); });
        return nb::make_tuple(result[0], result[1], options.seconds[0], options.seconds[1]);
      },
      nb::arg("text"), nb::arg("options"));
  m.def(
      "disassemble",
      [](nb::bytes object) {
        MlirStringRef data = mlirStringRefCreate(object.c_str(), object.size());
        nb::tuple result =
            run([&](auto... sinks) { return flyCodegenDisassemble(data, sinks...); });
        return nb::object(result[0]);
      },
      nb::arg("object"));
  m.def(
      "check_assembly",
      [](const std::string &text, int kind) {
        std::string reason;
        MlirLogicalResult result;
        {
          nb::gil_scoped_release release;
          result = flyCheckAssembly(mlirStringRefCreate(text.data(), text.size()), kind, append,
                                    &reason);
        }
        if (mlirLogicalResultIsFailure(result))
          throw nb::value_error(reason.c_str());
      },
      nb::arg("text"), nb::arg("kind"));
  m.def("arch_table", archTable);
  m.def("llvm_version", [] { return str(flyLLVMVersion()); });
}
