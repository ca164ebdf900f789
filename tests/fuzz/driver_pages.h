// What the processes of the driver share.
#pragma once

#include <semaphore.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "tests/fuzz/fuzz_driver.h"

namespace attest::fuzz {

inline constexpr std::uint64_t kNoMore = ~std::uint64_t{0};

enum class Stage : int { making, reading };

struct Input {
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

  std::uint64_t number;
  std::size_t size;
  char bytes[kMaxBytes];

  void set(std::uint64_t its_number, std::string_view content) {
    if (content.size() > kMaxBytes) throw std::logic_error("an input of more than 64 MiB");
    number = its_number;
    size = content.size();
    std::memcpy(bytes, content.data(), size);
  }
  std::string_view view() const { return {bytes, size}; }
};

struct Shared {
  std::atomic<std::uint64_t> making;  ///< number of the file that is being made
  std::atomic<std::uint64_t> begun;   ///< counts inputs that are being read, for the watch
  std::atomic<Stage> stage;           ///< of the reading process
  std::uint64_t next;                 ///< to be read
  sem_t made, taken;                  ///< of `handed`
  DriverReport report;
  char failure[4096];
  Input input;
  Input handed, base;  ///< files that HDF5 made: the next, and that whose variants are being read
};

class SharedPages {
 public:
  SharedPages() {
    void* pages =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::runtime_error("no shared memory");
    shared_ = static_cast<Shared*>(pages);  // zeros are what its members begin with
    if (sem_init(&shared_->made, 1, 0) != 0 || sem_init(&shared_->taken, 1, 1) != 0)
      throw std::runtime_error("no semaphores");
  }
  ~SharedPages() { munmap(shared_, sizeof(Shared)); }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  Shared& operator*() const { return *shared_; }

 private:
  Shared* shared_;
};

inline void wait_for(sem_t& semaphore) {
  while (sem_wait(&semaphore) != 0) {
  }
}

}  // namespace attest::fuzz
