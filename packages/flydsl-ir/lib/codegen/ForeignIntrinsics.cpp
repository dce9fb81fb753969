//===- ForeignIntrinsics.cpp - Intrinsics of other architectures ----------===//
//
// Of most intrinsics that an architecture lacks, instruction selection says so. Of those here it
// selects an instruction that the architecture has no encoding for, and the writer of the object file
// crashes or encodes it for another one. The list is what LLVM 22 does so with: its patterns for them
// are not restricted to the architectures that have the instruction.
//
//===----------------------------------------------------------------------===//
#include "ForeignIntrinsics.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace mlir::fly;

namespace {

using F = ArchFeature;

/// Intrinsics whose names start so are of the architectures that have the feature.
struct Rule {
  StringLiteral prefix;
  ArchFeature needed;
};

constexpr Rule kRules[] = {
    {"s.barrier.init", F::SplitBarriers},
    {"s.barrier.join", F::SplitBarriers},
    {"s.barrier.leave", F::SplitBarriers},
    {"s.barrier.signal", F::SplitBarriers},
    {"s.barrier.wait", F::SplitBarriers},
    {"s.get.barrier.state", F::SplitBarriers},
    {"s.get.named.barrier.state", F::SplitBarriers},
    {"s.sleep.var", F::SplitBarriers},
    {"s.cluster.barrier", F::Clusters},
    {"cvt.scalef32.", F::ConvertScaled2},
    {"cvt.sr.pk.bf16.f32", F::ConvertScaled8},
    {"buffer.wbinvl1", F::MFMA},
    {"fmad.ftz.f16", F::MFMA},
    {"raw.buffer.atomic.sub.clamp.u32", F::AtomicSubClamp},
    {"raw.ptr.buffer.atomic.sub.clamp.u32", F::AtomicSubClamp},
    {"struct.buffer.atomic.sub.clamp.u32", F::AtomicSubClamp},
    {"struct.ptr.buffer.atomic.sub.clamp.u32", F::AtomicSubClamp},
    {"exp.", F::Graphics},
    {"s.wait.event.export.ready", F::Graphics},
    {"ds.bvh.stack.rtn", F::Graphics},
    {"ds.bvh.stack.push", F::WMMAGfx120x},
    {"ds.add.gs.reg.rtn", F::WMMAGfx11},
    {"ds.sub.gs.reg.rtn", F::WMMAGfx11},
};

} // namespace

bool mlir::fly::isForeignIntrinsic(StringRef name, const ArchInfo &arch) {
  if (!name.consume_front("llvm.amdgcn."))
    return false;
  // Eight and sixteen at a time are of another architecture, and selection knows which.
  if (name.contains(".pk8.") || name.contains(".pk16."))
    return false;
  return any_of(kRules, [&](const Rule &rule) {
    return name.starts_with(rule.prefix) && !arch.has(rule.needed);
  });
}
