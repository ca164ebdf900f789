// run_in_guarded_child: fork, limits, and pipes.
#include "dumps/hdf5/guarded_child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "dumps/base/error.h"
#include "dumps/base/file_descriptor.h"
#include "dumps/base/machine_limits.h"
#include "dumps/hdf5/child_report.h"
#include "dumps/hdf5/handle.h"

namespace attest {
namespace {

template <std::size_t N>
void copy_text(char (&target)[N], std::string_view text) {
  const std::size_t size = std::min(text.size(), N - 1);
  std::memcpy(target, text.data(), size);
  target[size] = '\0';
}

ChildReport* child_report = nullptr;  // set in a child only
bool no_children = false;

[[noreturn]] void throw_system_error(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

/// Checks a call that prepares the child.
[[noreturn]] void fail_to_start(const std::string& file, const char* call) {
  const int error = errno;
  throw_if_limit(file, error);
  throw std::system_error(error, std::generic_category(), call);
}

class SharedChildReport {
 public:
  explicit SharedChildReport(const std::string& file) {
    void* page = mmap(nullptr, sizeof(ChildReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) fail_to_start(file, "mmap");
    page_ = new (page) ChildReport{};
  }
  SharedChildReport(const SharedChildReport&) = delete;
  SharedChildReport& operator=(const SharedChildReport&) = delete;
  ~SharedChildReport() { munmap(page_, sizeof(ChildReport)); }
  ChildReport* get() const { return page_; }

 private:
  ChildReport* page_;
};

/// A child process; the destructor kills it if it is still running.
class Process {
 public:
  explicit Process(pid_t id) : id_(id) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(id_, &status, 0)) < 0 && errno == EINTR) {
    }
    if (ended < 0) status = W_EXITCODE(1, 0);  // its exit status is lost
    id_ = -1;
    return status;
  }

 private:
  pid_t id_;
};

/// HDF5 calls a file damaged that it could not open for want of a descriptor.
constexpr int kDescriptors = 4;

/// Sets the child's limits. From here on it dies without output or core dump, whatever the cause.
void confine(const ChildLimits& limits, std::size_t address_space) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_DUMPABLE, 0);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGALRM, SIGPIPE}) {
    std::signal(signal, SIG_DFL);
  }
  // Signals of a terminal or a batch system go to the process group of the parent, which kills the child. In that group
  // the child would die of them first, and the file be called damaged.
  setpgid(0, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(signal, SIG_IGN);  // forgets one that came before
    std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // a blocked SIGXCPU would end no endless loop
  const FileDescriptor null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  dup2(null.get(), STDOUT_FILENO);
  dup2(null.get(), STDERR_FILENO);
  if (address_space > 0 && !set_limit(RLIMIT_AS, address_space + limits.memory_bytes)) child_report->little_memory = 1;
  set_limit(RLIMIT_CPU, limits.processor_seconds);
  alarm(wall_seconds(limits));
}

[[noreturn]] void run_child(const std::string& file, const std::function<void(ChildOutput&)>& work, int descriptor) {
  auto end = ChildEnd::reported;
  try {
    require_descriptors(file, kDescriptors);
    ChildOutput output(descriptor);
    work(output);
    end = ChildEnd::done;
  } catch (const LimitError& error) {
    copy_text(child_report->error, error.what());
    end = ChildEnd::limit_reported;
  } catch (const std::bad_alloc&) {
    end = ChildEnd::memory_reported;
    copy_text(child_report->error,
              fmt::format("{}: {}: claims more memory than a file of this size can need", file, child_report->object));
  } catch (const std::exception& error) {
    if (hdf5::lacked_memory()) end = ChildEnd::memory_reported;
    copy_text(child_report->error, error.what());
  }
  _exit(static_cast<int>(end));  // no destructors, no flushing of buffers: they belong to the parent
}

/// A limit of the address space while it lives: what is in use, and `bytes` more.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    if (const std::size_t used = address_space_in_use(); used > 0) set_limit(RLIMIT_AS, used + bytes);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

/// The errors are those that a child would report.
void run_without_child(const std::string& file, const ChildLimits& limits,
                       const std::function<void(ChildOutput&)>& work, const std::function<void(ChildInput&)>& receive) {
  const FileDescriptor bytes(memfd_create("attest", MFD_CLOEXEC));
  if (!bytes) fail_to_start(file, "memfd_create");
  try {
    const hdf5::Lock lock;
    const MemoryLimit limit(limits.memory_bytes);
    ChildOutput output(bytes.get());
    work(output);
  } catch (const LimitError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw InputError(fmt::format("{}: claims more memory than a file of this size can need", file));
  } catch (const std::logic_error&) {  // a fault of the reader, which fuzzing is to find
    throw;
  } catch (const std::exception& error) {
    throw InputError(error.what());
  }
  lseek(bytes.get(), 0, SEEK_SET);
  ChildInput input(bytes.get(), file);
  receive(input);
}

}  // namespace

void ChildOutput::write(std::span<const std::byte> bytes) {
  const unsigned left = child_report != nullptr ? alarm(0) : 0;  // the parent may be stopped, and read much later
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error("write to parent");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  if (left > 0) alarm(left);
}

std::size_t ChildInput::read(std::span<std::byte> target) {
  std::size_t total = 0;
  while (total < target.size()) {
    const ssize_t count = ::read(descriptor_, target.data() + total, target.size() - total);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error("read from child");
    if (count == 0) break;
    total += static_cast<std::size_t>(count);
  }
  return total;
}

std::string ChildInput::read_all(std::size_t max_bytes) {
  std::string all;
  constexpr std::size_t kStep = 64 * 1024;
  for (std::size_t size = 0;; size = all.size()) {
    all.resize(size + kStep);
    const std::size_t count = read(std::as_writable_bytes(std::span(all).subspan(size)));
    all.resize(size + count);
    if (all.size() > max_bytes)
      throw InputError(fmt::format("{}: the file is damaged, it gives more than {} bytes", file_, max_bytes));
    if (count < kStep) return all;
  }
}

void run_in_guarded_child(const std::string& file, const ChildLimits& limits,
                          const std::function<void(ChildOutput&)>& work,
                          const std::function<void(ChildInput&)>& receive) {
  if (no_children) return run_without_child(file, limits, work, receive);
  const SharedChildReport report(file);
  const std::size_t address_space = address_space_in_use();

  // The lock has two purposes. The child must not inherit HDF5 in the middle of a call. And no child may inherit the
  // write end of another child's pipe, whose reader would then wait for both.
  std::optional<hdf5::Lock> lock(std::in_place);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_to_start(file, "pipe2");
  FileDescriptor input(ends[0]);
  FileDescriptor output(ends[1]);
  fcntl(output.get(), F_SETPIPE_SZ, 1 << 20);
  const pid_t id = fork();
  if (id < 0) fail_to_start(file, "fork");
  if (id == 0) {
    input.close();  // or the pipe would not break when the parent closes its end
    hdf5::stop_locking_in_forked_child();
    child_report = report.get();
    note_object("/");
    confine(limits, address_space);
    run_child(file, work, output.get());
  }
  Process child(id);
  output.close();
  lock.reset();

  ChildInput parent_end(input.get(), file);
  receive(parent_end);
  input.close();  // a child that writes more ends
  const int status = child.wait();
  if (!has_ended(status, ChildEnd::done)) throw_for(file, status, *report.get(), limits);
}

void make_no_guarded_children(bool none) { no_children = none; }

void note_object(std::string_view object) {
  if (child_report != nullptr) copy_text(child_report->object, object);
}

}  // namespace attest
