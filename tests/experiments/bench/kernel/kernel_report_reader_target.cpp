// Records of kernel benches, in JSON.
#include <cmath>

#include "experiments/bench/kernel/kernel_text.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/experiments/bench/kernel/made_kernel_report.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

class KernelReportTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override {
    return mutated_json(parse_json(json_of(made_kernel_report()).dump()), random);
  }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("bench.json", input);
    return outcome_of(path, [&] {
      const KernelReport report = read_kernel_report(path);
      for (const KernelMeasurement& m : report.measurements) {
        require(m.length > 0 && m.batch > 0, "a measurement of nothing");
        for (const double time : m.microseconds) require(time >= 0 && std::isfinite(time), "a time that is none");
      }
      require(!text_of(report).empty(), "no table");
    });
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kKernelReportTarget{"bench", ".json", 500,
                                     [] { return std::unique_ptr<FuzzTarget>(new KernelReportTarget); }};

}  // namespace attest::fuzz
