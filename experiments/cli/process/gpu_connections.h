// How many connections (work queues) CUDA makes to each GPU: CUDA_DEVICE_MAX_CONNECTIONS.
#pragma once

namespace attest {

/// Asks for four instead of CUDA's eight, unless the user has asked for a number. To make and to end a connection took
/// about 0.025 s on an H200 (analysis/SPEED.md), and a study is as fast with four, not with two. CUDA reads it when the
/// first GPU is asked for. Call it before any other thread starts: it changes the environment.
void limit_gpu_connections();

/// Takes that back, for a program that replaces this one.
void restore_gpu_connections();

}  // namespace attest
