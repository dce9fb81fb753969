// The tile is the guide of a zipped divide: rank-1 tiles stay tuples, nested tiles recurse.
// RUN: fly-opt %s | FileCheck %s

// CHECK-LABEL: func.func @rank_one(
// CHECK: -> !fly.layout<((8),(5)):((1),(8))>
func.func @rank_one(%l: !fly.layout<40:1>, %t: !fly.tile<[8]>) {
  %r = fly.zipped_divide(%l, %t) : (!fly.layout<40:1>, !fly.tile<[8]>) -> !fly.layout<((8),(5)):((1),(8))>
  return
}

// CHECK-LABEL: func.func @leaf(
// CHECK: -> !fly.layout<(8,5):(1,8)>
func.func @leaf(%l: !fly.layout<40:1>, %t: !fly.tile<8>) {
  %r = fly.zipped_divide(%l, %t) : (!fly.layout<40:1>, !fly.tile<8>) -> !fly.layout<(8,5):(1,8)>
  return
}

// CHECK-LABEL: func.func @partial(
// CHECK: -> !fly.layout<((3),(4,30)):((30),(90,1))>
func.func @partial(%l: !fly.layout<(12,30):(30,1)>, %t: !fly.tile<[3]>) {
  %r = fly.zipped_divide(%l, %t) : (!fly.layout<(12,30):(30,1)>, !fly.tile<[3]>) -> !fly.layout<((3),(4,30)):((30),(90,1))>
  return
}

// CHECK-LABEL: func.func @nested(
// CHECK: -> !fly.layout<(((2,3),5),((2,2),4)):(((1,4),24),((2,12),120))>
func.func @nested(%l: !fly.layout<((4,6),20):((1,4),24)>, %t: !fly.tile<[[2|3]|5]>) {
  %r = fly.zipped_divide(%l, %t) : (!fly.layout<((4,6),20):((1,4),24)>, !fly.tile<[[2|3]|5]>) -> !fly.layout<(((2,3),5),((2,2),4)):(((1,4),24),((2,12),120))>
  return
}
