//===- FlyOps.td - all operations of the fly dialect ------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYOPS_TD
#define FLY_IR_FLYOPS_TD

include "fly/IR/FlyTupleOps.td"
include "fly/IR/FlyAlgebraOps.td"
include "fly/IR/FlyMemoryOps.td"
include "fly/IR/FlyAtomOps.td"

#endif // FLY_IR_FLYOPS_TD
