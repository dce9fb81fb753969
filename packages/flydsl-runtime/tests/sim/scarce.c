/* Part of a test's program, or preloaded: while a call runs, the heap and the threads of the process run out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

typedef int (*Launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned lds,
                      void *stream, void **arguments, void **extra);
typedef int (*Synchronize)(void);

static atomic_int scarce; /* in the process */
static _Thread_local int scarce_here __attribute__((tls_model("initial-exec"))); /* in the thread */
static atomic_long allocations, threads; /* that there are left */

/* Once they are used up, all that follow fail too. */
static int refused(atomic_long *left) {
  return (scarce_here || atomic_load(&scarce)) && atomic_fetch_sub(left, 1) <= 0;
}

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

static void limit(const long left[2]) {
  atomic_store(&allocations, left[0]);
  atomic_store(&threads, left[1]);
}

/* From here on, `left[0]` allocations and `left[1]` threads succeed. */
void scarce_begin(const long left[2]) {
  limit(left);
  atomic_store(&scarce, 1);
}

/* The same, of the calling thread alone. */
void scarce_begin_here(const long left[2]) {
  limit(left);
  scarce_here = 1;
}

/* All succeed again. `left` is how many were not asked for (negative: so many were refused). */
void scarce_end(long left[2]) {
  atomic_store(&scarce, 0);
  scarce_here = 0;
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

typedef long (*Words)(unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                      unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                      unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long,
                      unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long);

/* Calls a function of any number of words, up to 24, without an allocation that succeeds. */
void scarce_call(Words call, const unsigned long a[24]) {
  long left[2] = {0, 0};
  scarce_begin(left);
  call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16], a[17],
       a[18], a[19], a[20], a[21], a[22], a[23]);
  scarce_end(left);
}
