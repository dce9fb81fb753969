//===- Program.cpp - decoded code of one code object ----------------------===//

#include "decode/Program.h"

#include "decode/Disassembler.h"
#include "support/Error.h"

namespace flysim {

const uint32_t *Program::constant(uint64_t value) {
  auto it = constantAt.find(value);
  if (it != constantAt.end())
    return it->second;
  constants.emplace_back();
  ConstRow &row = constants.back();
  for (unsigned i = 0; i < kRow; ++i) {
    row.lanes[i] = static_cast<uint32_t>(value);
    row.lanes[kRow + i] = static_cast<uint32_t>(value >> 32);
  }
  constantAt[value] = row.lanes;
  return row.lanes;
}

uint32_t Program::indexOf(uint64_t addr) const {
  uint64_t offset = addr - base;
  if (addr < base || offset >= size || offset % 4 || indexAt[offset / 4] < 0)
    raise(FaultKind::IllegalAddress,
          format("jump to 0x%llx, where there is no instruction", (unsigned long long)addr));
  return static_cast<uint32_t>(indexAt[offset / 4]);
}

std::string Program::text(const Inst &i) const {
  std::lock_guard<std::mutex> lock(textsMutex);
  auto it = texts.find(i.pc);
  if (it == texts.end()) // no entry before there is a text: print() may find no memory
    it = texts.emplace(i.pc, disassembler->print(reinterpret_cast<const uint8_t *>(base + i.pc), size - i.pc,
                                                 base + i.pc)).first;
  return it->second;
}

RegisterUse Program::registerUse(const Inst &i) const {
  return disassembler->registerUse(reinterpret_cast<const uint8_t *>(base + i.pc), size - i.pc, base + i.pc);
}

} // namespace flysim
