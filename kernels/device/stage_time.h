// Measured time of a stage of device work. Free of CUDA, because commands print it in every build.
#pragma once

#include <string>
#include <string_view>

namespace attest {

/// Time that the device spent on a stage of its work.
struct StageTime {
  std::string name;
  double seconds = 0;
  double bytes = 0;  ///< lower bound on memory traffic: each input read once, each output written once
};

/// Name of the stage that copies layers from host memory. It is limited by the bus, not by device memory bandwidth.
inline constexpr std::string_view kHostCopyStage = "copy from host";
/// Name of the stage of all others together, but for copies from host memory. Some of them run side by side.
inline constexpr std::string_view kBusyStage = "busy";

}  // namespace attest
