//===- ForkGate.h - fork while other threads are in the library -*- C++ -*-===//
//
// A child of fork() has one thread and a copy of every lock, held or not. So that it can use the
// library, a fork waits until no other thread is inside: launches under way end first. It waits
// for some seconds at most, since a launch may wait for what the forking thread does next, and not
// at all in a thread that is inside itself (a callback of a launch). The child of such a fork gets
// errors from the library, and no deadlock.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_SUPPORT_FORKGATE_H
#define FLYSIM_SUPPORT_FORKGATE_H

namespace flysim {

/// Held while a thread is inside the library; nests.
class InLibrary {
public:
  InLibrary();
  ~InLibrary();
  InLibrary(const InLibrary &) = delete;
  InLibrary &operator=(const InLibrary &) = delete;
};

/// True in a child whose parent forked while a thread was inside.
bool forkedInside();

} // namespace flysim

#endif
