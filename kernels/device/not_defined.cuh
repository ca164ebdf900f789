// The value of a number that is not defined, as not_defined.h has it for the host.
#pragma once

namespace attest {

__device__ inline float not_defined() { return __int_as_float(0x7FC00000); }

}  // namespace attest
