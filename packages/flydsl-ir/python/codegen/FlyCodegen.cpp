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

FlyCodegenOptions makeOptions(const std::string &arch, const std::string &features,
                              int optLevel, int output) {
  if (output < FlyCodegenLLVMIR || output > FlyCodegenHSACO)
    throw nb::value_error("unknown kind of output");
  return {mlirStringRefCreate(arch.data(), arch.size()),
          mlirStringRefCreate(features.data(), features.size()), optLevel,
          static_cast<FlyCodegenOutput>(output)};
}

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
  m.def(
      "compile_operation",
      [](MlirOperation op, const std::string &arch, const std::string &features, int optLevel,
         int output) {
        FlyCodegenOptions options = makeOptions(arch, features, optLevel, output);
        return run([&](auto... sinks) { return flyCodegenCompileOperation(op, options, sinks...); });
      },
      nb::arg("op"), nb::arg("arch"), nb::arg("features"), nb::arg("opt_level"),
      nb::arg("output"));
  m.def(
      "compile_llvm_ir",
      [](const std::string &text, const std::string &arch, const std::string &features,
         int optLevel, int output) {
        FlyCodegenOptions options = makeOptions(arch, features, optLevel, output);
        MlirStringRef ir = mlirStringRefCreate(text.data(), text.size());
        return run([&](auto... sinks) { return flyCodegenCompileLLVMIR(ir, options, sinks...); });
      },
      nb::arg("text"), nb::arg("arch"), nb::arg("features"), nb::arg("opt_level"),
      nb::arg("output"));
  m.def(
      "disassemble",
      [](nb::bytes object) {
        MlirStringRef data = mlirStringRefCreate(object.c_str(), object.size());
        nb::tuple result =
            run([&](auto... sinks) { return flyCodegenDisassemble(data, sinks...); });
        return nb::object(result[0]);
      },
      nb::arg("object"));
  m.def("arch_table", archTable);
  m.def("llvm_version", [] { return str(flyLLVMVersion()); });
}
