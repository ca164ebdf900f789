// The descriptors 0, 1 and 2: they are there, and what could not be written to them is told.
#pragma once

namespace attest {

/// Opens /dev/null for those that the parent has closed: a data file must not become standard output.
void open_missing_standard_streams();

/// Writes what is buffered. If the reader of the pipe has gone, the process ends quietly by SIGPIPE, as other programs
/// do. Throws OutputError if standard output cannot be written.
void flush_standard_output();

}  // namespace attest
