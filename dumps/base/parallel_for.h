// Runs independent tasks on a few threads.
#pragma once

#include <utility>

#include "dumps/base/workers.h"

namespace attest {

/// As Workers::run(), on threads of its own.
template <class Task>
void parallel_for(int threads, std::size_t count, Task&& task) {
  Workers(threads).run(count, std::forward<Task>(task));
}

}  // namespace attest
