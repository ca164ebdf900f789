// The command line: lists the subcommands, and maps errors to exit codes (README.md).
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/cli/config_file.h"
#include "experiments/cli/parse_error.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

enum ExitCode : int {
  kSuccess = 0,
  kInternalError = 1,
  kUsageError = 2,
  kInputError = 4,
  kOutputError = 5,
  kInterrupted = 130,
};

int fail(const std::string& sentence, ExitCode code) {
  std::cerr << "attest: " << printable(sentence) << '\n';  // it may have names from files
  return code;
}

int run(CLI::App& app, const ConfigFile& config, int argc, char** argv) {
  try {
    if (argc > 1 && std::string_view(argv[1]) == "capture") exec_capture_script({argv + 2, argv + argc});
    app.parse(argc, argv);
    if (!std::cout.flush()) throw OutputError("cannot write to standard output");
    return kSuccess;
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return fail(explain(app, error), kUsageError);
  } catch (const UsageError& error) {
    return fail(config.located(error.what()), kUsageError);
  } catch (const InputError& error) {
    return fail(error.what(), kInputError);
  } catch (const OutputError& error) {
    return fail(error.what(), kOutputError);
  } catch (const DeviceError& error) {
    return fail(error.what(), kOutputError);
  } catch (const Interrupted& error) {
    return fail(error.what(), kInterrupted);
  } catch (const std::exception& error) {
    return fail(std::string("internal error: ") + error.what() +
                    "; this is a defect of attest: please report it with this message, the command line and the output "
                    "of 'attest --version'",
                kInternalError);
  }
}

/// A parent may have left signals ignored or blocked that tell how children end and when limits are exceeded.
void reset_inherited_signals() {
  for (const int signal : {SIGCHLD, SIGXCPU, SIGALRM}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace
}  // namespace attest

int main(int argc, char** argv) {
  attest::reset_inherited_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is then an error of writing, as on a full disk
  CLI::App app{
      "How faithfully a sparse or quantised attention method reproduces exact attention, on dumps of real models",
      "attest"};
  app.require_subcommand(1);
  attest::GlobalOptions global;
  attest::add_global_options(app, global);
  for (const auto add : {attest::add_inspect, attest::add_synth, attest::add_import, attest::add_capture,
                         attest::add_run, attest::add_list, attest::add_figures, attest::add_claims, attest::add_bench, attest::add_demo})
    add(app, global);
  return attest::run(app, attest::ConfigFile(app), argc, argv);
}
