# Sourced by ./attest and tests/run. Sets preset: release, with CUDA, on a machine with an NVIDIA GPU (also under WSL),
# else cpu. ATTEST_CUDA=1 builds with CUDA anywhere, ATTEST_CUDA=0 nowhere.
preset=cpu
case ${ATTEST_CUDA-} in
  0 | OFF | off | no | false) ;;
  "") if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then preset=release; fi ;;
  *) preset=release ;;
esac
