// The readers under libFuzzer, which keeps the inputs that reach new code and changes those: fuzz_coverage CORPUS
// [libFuzzer's options], with the reader's name in ATTEST_FUZZ_READER. CONTRIBUTING.md says how it is built.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "dumps/hdf5/guarded_child.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/fuzz_targets.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t maximum);

namespace attest::fuzz {
namespace {

const TargetInfo& chosen() {
  const char* const name = std::getenv("ATTEST_FUZZ_READER");
  for (const TargetInfo* target : all_targets())
    if (name != nullptr && std::strcmp(name, target->name) == 0) return *target;
  std::fprintf(stderr, "ATTEST_FUZZ_READER: expected the name of a reader, as fuzz_readers --list shows them\n");
  std::exit(2);
}

FuzzTarget& reader() {
  static const std::unique_ptr<FuzzTarget> target = [] {
    std::unique_ptr<FuzzTarget> made = chosen().make();
    make_no_guarded_children();
    return made;
  }();
  return *target;
}

}  // namespace
}  // namespace attest::fuzz

extern "C" {

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    attest::fuzz::reader().read({reinterpret_cast<const char*>(data), size});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}

/// Half of the changes know the format, as those of fuzz_readers do; HDF5 files are not made in the process that reads.
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maximum, unsigned seed) {
  using namespace attest;
  std::string changed;
  if (RandomStream random(seed); !fuzz::chosen().is_hdf5() && random.below(4) == 0) {
    changed = fuzz::reader().make(random);
  } else {
    size = LLVMFuzzerMutate(data, size, maximum);
    changed.assign(reinterpret_cast<const char*>(data), size);
    if (random.below(8) != 0) fuzz::reader().repair(changed);
  }
  size = std::min(changed.size(), maximum);
  std::memcpy(data, changed.data(), size);
  return size;
}
}
