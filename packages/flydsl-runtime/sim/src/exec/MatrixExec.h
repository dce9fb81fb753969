//===- MatrixExec.h - executors of the matrix families ---------*- C++ -*-===//
#ifndef FLYSIM_EXEC_MATRIXEXEC_H
#define FLYSIM_EXEC_MATRIXEXEC_H

#include "exec/Inst.h"
#include "exec/Matrix.h"

namespace flysim {
namespace FLYSIM_LEVEL {
ExecFn sparseExecutor(const MatrixDesc &desc); ///< MatrixSparse.cpp
ExecFn mixedExecutor(const MatrixDesc &desc);  ///< MatrixMixed.cpp
} // namespace FLYSIM_LEVEL
} // namespace flysim

#endif
