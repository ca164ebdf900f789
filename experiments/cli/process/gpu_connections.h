// How many connections (work queues) CUDA makes to each GPU: CUDA_DEVICE_MAX_CONNECTIONS.
#pragma once

namespace attest {

/// Asks for four instead of CUDA's eight, unless the user has asked for a number. To make and to end a connection takes
/// 0.01 to 0.025 s on an H200, and a study is as fast with four (analysis/SPEED.md); with one it took a fifth longer.
/// CUDA reads it when the first GPU is asked for. Call it before any other thread starts: it changes the environment.
void limit_gpu_connections();

/// Takes that back, for a program that replaces this one.
void restore_gpu_connections();

}  // namespace attest
