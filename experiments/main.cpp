// The command line: lists the subcommands, and maps errors to exit codes (README.md).
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/machine_limits.h"
#include "dumps/base/printable.h"
#include "experiments/cli/process/gpu_connections.h"
#include "experiments/cli/process/interrupt.h"
#include "experiments/cli/process/line_prefix.h"
#include "experiments/cli/process/printable_stream.h"
#include "experiments/cli/process/standard_streams.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

enum ExitCode : int {
  kSuccess = 0,
  kInternalError = 1,
  kUsageError = 2,
  kNotCertified = 3,
  kInputError = 4,
  kOutputError = 5,
  kInterrupted = 130,
};

int fail(const std::string& sentence, ExitCode code) {
  constexpr std::size_t kMaxBytes = 8000;
  // The sentence is written in one piece, because ranks write to one terminal. It may have names from files, of any
  // length.
  std::cerr << line_prefix() + "attest: " + excerpt(sentence, kMaxBytes) + "\n";
  return code;
}

int fail_internally(const std::exception& error) {
  return fail(std::string("internal error: ") + error.what() +
                  "; this is a defect of attest: please report it with this message, the command line and the output "
                  "of 'attest --version'",
              kInternalError);
}

int run(Command& program, const std::vector<std::string>& words) {
  try {
    program.parse(words);
    program.run();
    flush_standard_output();
    return kSuccess;
  } catch (const UsageError& error) {
    return fail(error.what(), kUsageError);
  } catch (const NotCertified& error) {
    flush_standard_output();
    return *error.what() == '\0' ? kNotCertified : fail(error.what(), kNotCertified);
  } catch (const InputError& error) {
    return fail(error.what(), kInputError);
  } catch (const OutputError& error) {
    return fail(error.what(), kOutputError);
  } catch (const DeviceError& error) {
    return fail(error.what(), kOutputError);
  } catch (const LimitError& error) {
    return fail(error.what(), kOutputError);
  } catch (const Interrupted& error) {
    return fail(error.what(), kInterrupted);
  } catch (const std::bad_alloc&) {
    return fail(memory_limit_text(), kOutputError);
  } catch (const std::system_error& error) {
    const std::string limit = limit_text(error.code().value());
    return limit.empty() ? fail_internally(error) : fail(limit, kOutputError);
  } catch (const std::exception& error) {
    return fail_internally(error);
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
  std::signal(SIGPIPE, SIG_IGN);  // so is a pipe without a reader: temporary files are removed first
  attest::open_missing_standard_streams();
  attest::limit_gpu_connections();
  attest::end_on_signals();
  const attest::PrintableStream output(std::cout), errors(std::cerr);
  attest::Command program(
      "attest",
      "How faithfully a sparse or quantised attention method reproduces exact attention, on dumps of real models");
  program.requires_command();
  attest::GlobalOptions global;
  attest::add_global_options(program, global);
#define ATTEST_ADD(name) attest::add_##name(program, global);
  ATTEST_COMMANDS(ATTEST_ADD)
#undef ATTEST_ADD
  return attest::run(program, {argv + 1, argv + argc});
}
