//===- Classify.cpp - what an instruction asks of the machine -------------===//
//
// Cycle counts follow AMD's ISA manuals and LLVM's scheduling model; they are inputs
// of an estimate, not measurements.
//
//===----------------------------------------------------------------------===//

#include "observe/Classify.h"

#include "decode/Program.h"
#include "exec/Matrix.h"

namespace flysim {

const char *unitName(Unit unit) {
  static const char *const kNames[] = {"valu", "trans", "matrix", "salu",    "smem", "lds",
                                       "vmem_load", "vmem_store", "branch", "barrier", "wait",
                                       "internal"};
  return kNames[static_cast<unsigned>(unit)];
}

namespace {

/// Clocks that a matrix operation keeps the SIMD's matrix unit busy, and its flops.
void matrixCost(const MatrixDesc &d, const InstExt *ext, const ArchInfo &arch, unsigned waveSize,
                InstInfo &info) {
  info.flops = 2 * d.m * d.n * d.k * d.blocks;
  if (arch.has.clusters) {
    info.cycles = d.a == Elem::I8 || d.a == Elem::F32 ? 16 : 8;
    return;
  }
  bool half = elemBits(d.a) == 16;
  if (arch.has.rdna) {
    unsigned clocks = half ? 16 : 8;
    if (d.replicated()) // half the rate of gfx12, and 8 bits run no faster than 16
      clocks = d.a == Elem::I4 ? 16 : 32;
    info.cycles = static_cast<uint16_t>(clocks * (waveSize == 64 ? 2 : 1));
    info.xdl = false; // WMMA occupies the vector ALU
    return;
  }
  bool large = d.m == 32;
  if (d.a == Elem::F64) {
    info.cycles = d.m == 4 ? 16 : (arch.has.slowF64Matrix ? 64 : 32);
    info.xdl = false;
  } else if (d.a == Elem::F32) {
    info.cycles = large ? 64 : (d.m == 16 ? 32 : 8);
    info.xdl = false;
  } else if (d.mixed()) {
    // Formats 0 and 1 are 8-bit; 6- and 4-bit operands run twice as fast.
    bool eight = ext && (ext->cbsz < 2 || ext->blgp < 2);
    info.cycles = static_cast<uint16_t>((large ? 32 : 16) * (eight ? 2 : 1));
  } else if (d.blocks > 1) {
    info.cycles = large ? 64 : (d.m == 16 ? 32 : 8);
  } else {
    info.cycles = static_cast<uint16_t>((large ? 32 : 16) * (arch.has.slowMatrix ? 2 : 1));
  }
}

void waits(const WaitFacts &facts, uint32_t imm, const ArchInfo &arch, InstInfo &info) {
  auto set = [&](Counter c, unsigned n) { info.wait[static_cast<unsigned>(c)] = static_cast<uint8_t>(n); };
  switch (facts.kind) {
  case WaitKind::None:
    break;
  case WaitKind::Legacy: {
    // RDNA3 has moved the fields: 6 bits each from bit 10 and from bit 4.
    unsigned vm = arch.has.rdna ? imm >> 10 & 63 : (imm & 15) | (imm >> 14 & 3) << 4;
    unsigned lgkm = arch.has.rdna ? imm >> 4 & 63 : imm >> 8 & 15;
    if (vm != 63)
      set(Counter::Vm, vm);
    if (lgkm != (arch.has.rdna ? 63u : 15u))
      set(Counter::Lgkm, lgkm);
    break;
  }
  case WaitKind::Two:
    set(facts.second, imm >> 8 & 63);
    [[fallthrough]];
  case WaitKind::One:
    set(facts.counter, imm & facts.mask);
    break;
  case WaitKind::All:
    for (uint8_t &w : info.wait)
      w = 0;
  }
}

/// The counter of a memory instruction. `returns`: an atomic operation that gives the old value.
Counter counterOf(const MemoryFacts &m, Form form, bool returns, const ArchInfo &arch) {
  bool split = arch.has.splitCounters;
  switch (form) {
  case Form::Lds:
    return m.async ? Counter::Async : split ? Counter::Ds : Counter::Lgkm;
  case Form::Tensor:
    return Counter::Tensor;
  case Form::Scalar:
    return split ? Counter::Km : Counter::Lgkm;
  default:
    break;
  }
  if (m.maintains)
    return m.prefetch ? Counter::Count : Counter::Vm;
  // An atomic that returns nothing counts as a store where stores have a counter.
  bool noReturn = m.store || (m.atomic && !returns);
  return m.async                                              ? Counter::Async
         : (split || arch.has.vectorStores) && noReturn ? Counter::Store
                                                              : Counter::Vm;
}

void memory(const Inst &i, const ArchInfo &arch, InstInfo &info) {
  const MemoryFacts &m = i.def->facts.memory;
  info.space = m.space;
  info.bytes = m.bytes;
  info.pairs = m.pairs;
  info.load = m.load;
  info.store = m.store;
  info.atomic = m.atomic;
  info.toLds = m.toLds;
  info.whole = m.space == MemSpace::Scalar && !m.descriptor;
  info.counter = counterOf(m, i.def->facts.form, static_cast<bool>(i.dst), arch);
}

/// The rows of an instruction; `high`: the fields of the s_set_vgpr_msb in force, two bits for each kind of operand.
void registers(const Inst &i, unsigned high, InstInfo &info) {
  unsigned r = 0, w = 0;
  auto rows = [&](const Operand &o) {
    return RegRange{static_cast<uint16_t>(o.reg + (high >> 2 * o.msb & 3) * 256), o.count};
  };
  auto read = [&](const Operand &o) {
    if (o.kind == OperandKind::Vgpr && r < 4)
      info.reads[r++] = rows(o);
  };
  for (const Operand &o : i.src) {
    if (&o == &i.src[2] && o.kind == OperandKind::Vgpr && r < 4)
      info.srcC = static_cast<int8_t>(r);
    read(o);
  }
  read(i.data);
  if (i.dst.kind == OperandKind::Vgpr)
    info.writes[w++] = rows(i.dst);
  if (i.sdst.kind == OperandKind::Vgpr)
    info.writes[w++] = rows(i.sdst);
}

/// Clocks of a vector instruction without its operands; `pass`: those of an addition.
uint16_t vectorClocks(const OpFacts &facts, const ArchInfo &arch, uint16_t pass) {
  bool rdna = arch.has.rdna;
  unsigned times = facts.unit == Unit::Trans        ? 4
                   : facts.rate == Rate::Quarter   ? (rdna ? 8 : 4)
                   : facts.rate == Rate::Double && rdna ? 16
                                                    : 1;
  return static_cast<uint16_t>(times * pass);
}

} // namespace

InstInfo classifyOne(const Inst &i, const ArchInfo &arch, unsigned waveSize, unsigned high) {
  static const OpFacts kUnknown;
  const OpFacts &facts = i.def ? i.def->facts : kUnknown;
  auto imm = static_cast<uint32_t>(i.imm);
  InstInfo info;
  info.unit = facts.unit;
  info.barrier = facts.barrier;
  switch (facts.unit) {
  case Unit::Matrix:
    registers(i, high, info);
    matrixCost(static_cast<const MatrixInst *>(i.def->table)->desc, i.ext, arch, waveSize, info);
    break;
  case Unit::Valu:
  case Unit::Trans:
    registers(i, high, info);
    info.cycles = vectorClocks(facts, arch, arch.has.rdna ? (waveSize == 64 ? 2 : 1) : 4);
    info.laneFlops = facts.flops;
    break;
  case Unit::Lds:
  case Unit::VmemLoad:
  case Unit::VmemStore:
    registers(i, high, info);
    memory(i, arch, info);
    break;
  case Unit::Smem:
    memory(i, arch, info);
    break;
  case Unit::Wait:
    waits(facts.wait, imm, arch, info);
    break;
  case Unit::Internal:
    if (facts.idles)
      info.cycles = static_cast<uint16_t>((imm & 15) + 1);
    if (facts.setsPriority)
      info.priority = static_cast<int8_t>(imm & 3);
    break;
  default:
    break;
  }
  return info;
}

std::vector<InstInfo> classify(const Program &program, unsigned waveSize) {
  std::vector<InstInfo> out;
  out.reserve(program.insts.size());
  // Compilers leave every block with these bits clear, so those of the instruction before are in force.
  unsigned high = 0;
  for (const Inst &i : program.insts) {
    if (i.def && i.def->facts.setsVgprMsb)
      high = i.imm & 0xff;
    out.push_back(classifyOne(i, *program.arch, waveSize, high));
  }
  return out;
}

} // namespace flysim
