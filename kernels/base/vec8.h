// Eight doubles that compilers keep in vector registers.
#pragma once

namespace attest {

typedef double Vec8d __attribute__((vector_size(64)));

}  // namespace attest
