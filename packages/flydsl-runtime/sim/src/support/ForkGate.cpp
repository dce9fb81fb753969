//===- ForkGate.cpp - fork while other threads are in the library ---------===//

#include "support/ForkGate.h"

#include <ctime>
#include <pthread.h>

namespace flysim {

namespace {

// Readers are preferred: one that waits for work of another thread does not wait for a fork too.
pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
thread_local unsigned depth = 0;
thread_local bool closed = false; ///< this thread forks and holds the gate

bool inside = false; ///< see forkedInside()
constexpr time_t kSeconds = 10;

void beforeFork() {
  if (depth)
    return;
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kSeconds;
  closed = pthread_rwlock_timedwrlock(&gate, &until) == 0;
}

void inParent() {
  if (closed)
    pthread_rwlock_unlock(&gate);
  closed = false;
}

void inChild() {
  // The lock knows its owner by a thread number that the child does not have: a new one.
  gate = PTHREAD_RWLOCK_INITIALIZER;
  if (depth) // forked from within: the lock is held as often as its holder will give it back
    pthread_rwlock_rdlock(&gate);
  inside |= !closed;
  closed = false;
}

const int registered = pthread_atfork(beforeFork, inParent, inChild);

} // namespace

bool forkedInside() { return inside; }

InLibrary::InLibrary() {
  if (depth++ == 0)
    pthread_rwlock_rdlock(&gate);
}

InLibrary::~InLibrary() {
  if (--depth == 0)
    pthread_rwlock_unlock(&gate);
}

} // namespace flysim
