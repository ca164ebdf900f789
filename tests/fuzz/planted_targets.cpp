// Readers with a known defect, which the driver must find.
#include <atomic>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace attest::fuzz {
namespace {

/// Does something wrong at every tenth input.
class Planted : public FuzzTarget {
 public:
  explicit Planted(void (*defect)()) : defect_(defect) {}

  std::string make(RandomStream& random) override { return random.below(10) == 0 ? "bad" : "good"; }
  Outcome read(const std::string& input) override {
    if (input == "bad") defect_();
    return Outcome::accepted;
  }

 private:
  void (*defect_)();
};

template <void (*defect)()>
std::unique_ptr<FuzzTarget> planted() {
  return std::make_unique<Planted>(defect);
}

void throws() { throw std::runtime_error("no\x1bsentence"); }
void crashes() { std::raise(SIGSEGV); }
void hangs() {
  for (std::atomic<int> rounds;;) ++rounds;
}
void swells() {
  std::vector<char> bytes(std::size_t{200} << 20);
  std::memset(bytes.data(), 1, bytes.size());
  require(bytes[bytes.size() / 2] == 1, "memory");
}

}  // namespace

const TargetInfo kThrowsTarget{"throws", ".txt", 100, planted<throws>};
const TargetInfo kCrashesTarget{"crashes", ".txt", 100, planted<crashes>};
const TargetInfo kHangsTarget{"hangs", ".txt", 100, planted<hangs>};
const TargetInfo kSwellsTarget{"swells", ".txt", 100, planted<swells>};

}  // namespace attest::fuzz
