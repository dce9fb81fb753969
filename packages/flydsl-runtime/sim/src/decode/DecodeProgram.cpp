//===- DecodeProgram.cpp - from a range of bytes to a program -------------===//

#include "decode/Disassembler.h"
#include "decode/Program.h"
#include "exec/Special.h"
#include "support/Settings.h"

#include <cstdio>
#include <set>

namespace flysim {

namespace {

/// Branch offsets become instruction indexes, now that all instructions are known.
void resolveBranches(Program &p) {
  for (Inst &i : p.insts) {
    if (!i.def || !(i.def->flags & kBranch))
      continue;
    int64_t target = static_cast<int64_t>(i.pc) + i.length + i.imm * 4;
    if (target < 0 || static_cast<uint64_t>(target) >= p.size || p.indexAt[target / 4] < 0)
      i.exec = execBadBranch;
    else
      i.imm = p.indexAt[target / 4];
  }
}

} // namespace

/// For developers: FLYDSL_SIM_OPCODES=FILE collects the instructions of every program that
/// runs, so that a tool can tell which ones no test has.
static void logOpcodes(const char *file, const std::string &arch, const std::set<std::string> &seen) {
  std::string text;
  for (const std::string &opcode : seen)
    text += arch + " " + opcode + "\n";
  if (FILE *f = fopen(file, "a")) {
    fwrite(text.data(), 1, text.size(), f);
    fclose(f);
  }
}

std::unique_ptr<Program> decodeProgram(const CodeObject &, const CodeRange &range,
                                       const ArchInfo &arch, bool wave32) {
  auto program = std::make_unique<Program>();
  program->arch = &arch;
  program->wave32 = wave32;
  program->base = range.addr;
  program->size = range.size & ~uint64_t(3);
  program->disassembler = std::make_shared<Disassembler>(arch, wave32);
  program->indexAt.assign(program->size / 4, -1);
  program->insts.reserve(program->size / 6 + 16);
  auto *bytes = reinterpret_cast<const uint8_t *>(range.addr);
  RawInst raw;
  const char *log = textSetting("FLYDSL_SIM_OPCODES");
  std::set<std::string> seen;
  for (uint64_t pc = 0; pc < program->size;) {
    program->indexAt[pc / 4] = static_cast<int32_t>(program->insts.size());
    program->insts.emplace_back();
    Inst &inst = program->insts.back();
    inst.pc = static_cast<uint32_t>(pc);
    if (program->disassembler->decode(bytes + pc, program->size - pc, range.addr + pc, raw)) {
      inst.length = static_cast<uint8_t>(raw.length);
      decodeInstruction(*program, raw, inst);
      program->indexesRegisters |= arch.has.indexMode && inst.def && (inst.def->flags & kIndexes);
      if (log)
        seen.insert(raw.opcode);
    } else {
      inst.length = 4;
      inst.exec = execIllegal;
    }
    pc += inst.length;
  }
  // Running off the end must fault rather than read past the vector.
  program->insts.emplace_back();
  program->insts.back().pc = static_cast<uint32_t>(program->size);
  program->insts.back().exec = execIllegal;
  resolveBranches(*program);
  joinRuns(*program);
  if (log)
    logOpcodes(log, arch.name, seen);
  return program;
}

} // namespace flysim
