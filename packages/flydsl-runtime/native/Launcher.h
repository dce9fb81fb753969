//===- Launcher.h - The Python type flydsl.runtime.Launcher -----*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_LAUNCHER_H
#define FLYDSL_RUNTIME_LAUNCHER_H

#include <nanobind/nanobind.h>

namespace flydsl::runtime {

/// Adds the type Launcher to \p m.
void registerLauncher(nanobind::module_ &m);

/// Adds the types Dispatcher and Guards to \p m.
void registerDispatcher(nanobind::module_ &m);

/// Adds the functions on devices, memory, streams and events to \p m.
void registerDeviceFunctions(nanobind::module_ &m);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_LAUNCHER_H
