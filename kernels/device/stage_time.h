// What is measured of a stage of a device's work. No CUDA here: commands print it in every build.
#pragma once

#include <string>
#include <string_view>

namespace attest {

/// Time that the device spent on a stage of its work.
struct StageTime {
  std::string name;
  double seconds = 0;
  double bytes = 0;  ///< that the stage has to move at least: what it needs read once, what it makes written once
};

/// The stage that brings layers from the host's memory: bound by the bus, not by the device's memory.
inline constexpr std::string_view kHostCopyStage = "copy from host";

}  // namespace attest
