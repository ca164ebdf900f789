// Flags take no value.
#pragma once

namespace CLI {
class App;
}

namespace attest {

/// Throws UsageError if the command line gives a flag a value, `--resume=5`: CLI11 would take it for true.
void refuse_flag_values(CLI::App& app, int argc, const char* const* argv);

}  // namespace attest
