// Preloaded into a program under test: system calls that fail as on a machine without hard links, threads or processes.
//   RUDE_LINKS=1     link fails with EPERM
//   RUDE_THREADS=N   after N threads no further one can be started
//   RUDE_FORKS=N     after N processes no further one can be started
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

static int used_up(const char* name, int* count) {
  const char* most = getenv(name);
  return most != NULL && __atomic_fetch_add(count, 1, __ATOMIC_RELAXED) >= atoi(most);
}

int link(const char* from, const char* to) {
  if (getenv("RUDE_LINKS") != NULL) {
    errno = EPERM;
    return -1;
  }
  return ((int (*)(const char*, const char*))dlsym(RTLD_NEXT, "link"))(from, to);
}

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
