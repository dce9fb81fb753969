//===- RegisterSwitches.cpp - more than 256 registers of gfx1250 ----------===//
#include "RegisterSwitches.h"
#include "RegisterBanks.h"

#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/MachineInstrBuilder.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Target/RegisterTargetPassConfigCallback.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

// The last passes before vector registers are rewritten and before the switches are placed; declared
// in a header of the target.
namespace llvm {
extern char &GCNNSAReassignID;
extern char &AMDGPUWaitSGPRHazardsLegacyID;
} // namespace llvm

namespace {

/// Adds an instruction without code behind each scalar instruction that writes no register.
class RegisterSwitches : public MachineFunctionPass {
public:
  static char ID;
  RegisterSwitches() : MachineFunctionPass(ID) {}

  StringRef getPassName() const override { return "Stops of register switches"; }

  bool runOnMachineFunction(MachineFunction &function) override {
    const TargetInstrInfo &info = *function.getSubtarget().getInstrInfo();
    const MCInstrDesc *stop = nullptr;
    for (unsigned opcode = 0; opcode < info.getNumOpcodes() && !stop; ++opcode)
      if (info.getName(opcode) == "SCHED_BARRIER")
        stop = &info.get(opcode);
    assert(stop && "an AMDGPU target has it");
    for (MachineBasicBlock &block : function)
      for (MachineInstr &instruction : make_early_inc_range(block)) {
        StringRef name = info.getName(instruction.getOpcode());
        // Behind s_clause the instructions of the clause follow, which nothing may come between.
        if (name.starts_with("S_") && name != "S_CLAUSE" && instruction.getNumExplicitDefs() == 0 &&
            !instruction.isTerminator() && !instruction.isInsideBundle())
          BuildMI(block, std::next(instruction.getIterator()), DebugLoc(), *stop).addImm(0);
      }
    return true;
  }
};

char RegisterSwitches::ID = 0;

} // namespace

void mlir::fly::manageRegisterBanks() {
  static RegisterTargetPassConfigCallback callback(
      [](TargetMachine &machine, PassManagerBase &, TargetPassConfig *passes) {
        if (!machine.getTargetTriple().isAMDGCN() ||
            !machine.getMCSubtargetInfo()->checkFeatures("+1024-addressable-vgprs"))
          return;
        passes->insertPass(&GCNNSAReassignID, createRegisterBanksPass());
        passes->insertPass(&AMDGPUWaitSGPRHazardsLegacyID, new RegisterSwitches());
      });
}
