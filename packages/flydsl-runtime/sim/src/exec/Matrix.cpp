#include "exec/ExecInline.h"
#include "exec/Register.h"
namespace flysim {
void FLYSIM_LEVEL::registerMatrix(OpTable &) {}
} // namespace flysim
