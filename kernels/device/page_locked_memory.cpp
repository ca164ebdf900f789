// Fast allocation of page-locked memory. Hundreds of megabytes are needed before the first layer can be read, and
// cudaHostAlloc() clears them page by page in one thread. Here several threads touch huge pages, which the driver then
// locks. This takes a fraction of the time.
#include "kernels/device/page_locked_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "dumps/base/parallel_for.h"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;
constexpr int kTouchingThreads = 8;

/// Anonymous memory mapping, aligned to huge pages.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes) : size_((bytes + kLargePage - 1) / kLargePage * kLargePage + kLargePage) {
    base_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    ::madvise(data(), size(), MADV_HUGEPAGE);  // small pages work as well
  }
  /// Makes the system provide the pages, by several threads.
  void touch() {
    parallel_for(kTouchingThreads, size() / kLargePage, [&](int, std::size_t i) {
      for (std::size_t at = 0; at < kLargePage; at += kPage)
        static_cast<volatile std::byte*>(data())[i * kLargePage + at] = std::byte{0};
    });
  }
  Mapping(Mapping&& other) noexcept : base_(std::exchange(other.base_, nullptr)), size_(other.size_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (base_ != nullptr) ::munmap(base_, size_);
  }

  std::byte* data() const {
    return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(base_) + kLargePage - 1) / kLargePage *
                                        kLargePage);
  }
  std::size_t size() const { return size_ - kLargePage; }

 private:
  void* base_ = nullptr;
  std::size_t size_;
};

/// What was locked after it was mapped; the rest is CUDA's own.
class Mappings {
 public:
  void insert(void* p, Mapping mapping) {
    const std::lock_guard lock(mutex_);
    mappings_.emplace(p, std::move(mapping));
  }
  /// False if there is no such mapping. `before`: called if there is.
  template <class Call>
  bool erase(void* p, Call&& before) {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(p);
    if (found == mappings_.end()) return false;
    before();
    mappings_.erase(found);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<void*, Mapping> mappings_;
};

Mappings& mappings() {
  static Mappings all;
  return all;
}

Mapping touched(std::size_t bytes) {
  Mapping mapping(bytes);
  mapping.touch();
  return mapping;
}

/// Pages for one allocation.
class Prepared {
 public:
  void begin(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (mapping_.valid()) return;
    bytes_ = bytes;
    mapping_ = std::async(std::launch::async | std::launch::deferred, touched, bytes);
  }
  /// Those that were prepared, or others.
  Mapping take(std::size_t bytes) {
    std::future<Mapping> mapping;
    {
      const std::lock_guard lock(mutex_);
      if (bytes_ == bytes) mapping = std::move(mapping_);
    }
    return mapping.valid() ? mapping.get() : touched(bytes);
  }

 private:
  std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::future<Mapping> mapping_;
};

Prepared& prepared() {
  static Prepared pages;
  return pages;
}

class PageLockedMemory final : public std::pmr::memory_resource {
 public:
  explicit PageLockedMemory(int device) : device_(device) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t) override {
    ATTEST_CUDA(cudaSetDevice(device_));
    return allocate_page_locked(bytes);
  }
  void do_deallocate(void* p, std::size_t, std::size_t) override { free_page_locked(p); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  const int device_;
};

}  // namespace

void* allocate_page_locked(std::size_t bytes) {
  if (bytes >= kLargePage) {
    Mapping mapping = prepared().take(bytes);
    void* const p = mapping.data();
    const std::size_t size = mapping.size();
    mappings().insert(p, std::move(mapping));  // before it is locked: memory that is must not be unmapped
    if (cudaHostRegister(p, size, cudaHostRegisterPortable) == cudaSuccess) return p;
    cudaGetLastError();  // some systems cannot lock memory that CUDA did not allocate
    mappings().erase(p, [] {});
  }
  void* p = nullptr;
  ATTEST_CUDA(cudaHostAlloc(&p, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable));
  return p;
}

void prepare_page_locked(std::size_t bytes) {
  if (bytes >= kLargePage) prepared().begin(bytes);
}

void free_page_locked(void* p) noexcept {
  if (!mappings().erase(p, [p] { ATTEST_CUDA_QUIET(cudaHostUnregister(p)); })) ATTEST_CUDA_QUIET(cudaFreeHost(p));
}

std::pmr::memory_resource* page_locked_memory(int device) {
  static std::mutex mutex;
  static std::map<int, PageLockedMemory> memories;
  const std::lock_guard lock(mutex);
  return &memories.try_emplace(device, device).first->second;
}

}  // namespace attest
