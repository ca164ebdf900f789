// The kinds of errors by name.
#include "analysis/ranks/error_text.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "dumps/base/error.h"
#include "dumps/base/machine_limits.h"

namespace attest {

ErrorText ErrorText::of_current() {
  try {
    throw;
  } catch (const UsageError& error) {
    return {"usage", error.what()};
  } catch (const InputError& error) {
    return {"input", error.what()};
  } catch (const OutputError& error) {
    return {"output", error.what()};
  } catch (const DeviceError& error) {
    return {"device", error.what()};
  } catch (const LimitError& error) {
    return {"limit", error.what()};
  } catch (const Interrupted& error) {
    return {"interrupted", error.what()};
  } catch (const std::bad_alloc&) {
    return {"limit", memory_limit_text()};
  } catch (const std::exception& error) {
    return {"internal", error.what()};
  }
}

void ErrorText::rethrow() const {
  if (kind == "usage") throw UsageError(sentence);
  if (kind == "input") throw InputError(sentence);
  if (kind == "output") throw OutputError(sentence);
  if (kind == "device") throw DeviceError(sentence);
  if (kind == "limit") throw LimitError(sentence);
  if (kind == "interrupted") throw Interrupted(sentence);
  throw std::runtime_error(sentence);
}

}  // namespace attest
