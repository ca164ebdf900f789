# Sourced by ./attest and tests/run. Sets preset: release, with CUDA, on a machine with an NVIDIA GPU (also under WSL),
# else cpu. ATTEST_CUDA=1 builds with CUDA anywhere, ATTEST_CUDA=0 nowhere.
preset=cpu
cuda=${ATTEST_CUDA-}
case ${cuda,,} in
  0 | off | no | false) ;;
  "") if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then preset=release; fi ;;
  *) preset=release ;;
esac
