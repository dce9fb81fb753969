/* Preloaded into a test's program: while a launch runs, the heap and the threads of the process run out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

typedef int (*Launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned lds,
                      void *stream, void **arguments, void **extra);
typedef int (*Synchronize)(void);

static atomic_int scarce;
static atomic_long allocations, threads; /* that there are left */

/* Once they are used up, all that follow fail too. */
static int refused(atomic_long *left) { return atomic_load(&scarce) && atomic_fetch_sub(left, 1) <= 0; }

extern void *__libc_malloc(size_t);
void *malloc(size_t size) {
  if (!refused(&allocations))
    return __libc_malloc(size);
  errno = ENOMEM;
  return NULL;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!real)
    real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
  return refused(&threads) ? EAGAIN : real(thread, attributes, start, argument);
}

/* From here on, `left[0]` allocations and `left[1]` threads succeed. */
void scarce_begin(const long left[2]) {
  atomic_store(&allocations, left[0]);
  atomic_store(&threads, left[1]);
  atomic_store(&scarce, 1);
}

/* All succeed again. `left` is how many were not asked for (negative: so many were refused). */
void scarce_end(long left[2]) {
  atomic_store(&scarce, 0);
  left[0] = atomic_load(&allocations);
  left[1] = atomic_load(&threads);
}

/* Launches work-groups of 64 and waits for them in between, so that Python takes no memory then. */
int scarce_launch(long left[2], Launch launch, Synchronize wait, void *function, unsigned groups, void **arguments) {
  scarce_begin(left);
  int code = launch(function, groups, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL);
  int waited = wait();
  scarce_end(left);
  return code ? code : waited;
}
