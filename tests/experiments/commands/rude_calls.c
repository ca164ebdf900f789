// Preloaded into a program under test: system calls that fail as on a machine without locks, threads or processes.
//   RUDE_LOCKS=1     fcntl's open file description locks fail with ENOLCK
//   RUDE_THREADS=N   after N threads no further one can be started
//   RUDE_FORKS=N     after N processes no further one can be started
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

static int used_up(const char* name, int* count) {
  const char* most = getenv(name);
  return most != NULL && __atomic_fetch_add(count, 1, __ATOMIC_RELAXED) >= atoi(most);
}

static int refuse_lock(int command) {
  return getenv("RUDE_LOCKS") != NULL && (command == F_OFD_SETLK || command == F_OFD_SETLKW);
}

#define FCNTL(name)                                                                        \
  int name(int descriptor, int command, ...) {                                             \
    va_list arguments;                                                                     \
    va_start(arguments, command);                                                          \
    void* argument = va_arg(arguments, void*);                                             \
    va_end(arguments);                                                                     \
    if (refuse_lock(command)) {                                                            \
      errno = ENOLCK;                                                                      \
      return -1;                                                                           \
    }                                                                                      \
    int (*original)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, #name);      \
    return original(descriptor, command, argument);                                        \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  static int count = 0;
  if (used_up("RUDE_THREADS", &count)) return EAGAIN;
  int (*original)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = dlsym(RTLD_NEXT, "pthread_create");
  return original(thread, attributes, run, argument);
}

static int forks = 0;

pid_t fork(void) {
  if (used_up("RUDE_FORKS", &forks)) {
    errno = EAGAIN;
    return -1;
  }
  return ((pid_t(*)(void))dlsym(RTLD_NEXT, "fork"))();
}

int posix_spawnp(pid_t* process, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const arguments[], char* const environment[]) {
  if (used_up("RUDE_FORKS", &forks)) return EAGAIN;
  int (*original)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const[],
                  char* const[]) = dlsym(RTLD_NEXT, "posix_spawnp");
  return original(process, file, actions, attributes, arguments, environment);
}
