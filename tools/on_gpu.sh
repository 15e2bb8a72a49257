#!/usr/bin/env bash
# On a machine with a CUDA device: a fresh environment, and the checks on that device in it.
#   tools/on_gpu.sh [--dry-run] [ARGUMENTS]      of `python -m tests.cuda.prove`
# --dry-run says what would be done, and does nothing. PYTHON names another Python. pip gets some hundred megabytes;
# what stays is build/on_gpu.txt, which the checks have printed.
set -euo pipefail
exec < /dev/null
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dry=""
if [ "${1:-}" = --dry-run ]; then
    dry=1
    shift
fi
step() { # say a command, and run it
    printf '+ %s\n' "$*"
    [ -n "$dry" ] || "$@"
}

# cuBLAS of CUDA 13 wants a driver for that. What compiles kernels wants none, and they are for drivers from 12.3 on.
cuda="$( (nvidia-smi 2> /dev/null || true) | sed -n 's/.*CUDA Version: \([0-9]*\).*/\1/p')"
if [ -z "$cuda" ] && [ -z "$dry" ]; then
    printf 'no NVIDIA driver on this machine: nvidia-smi tells no version of CUDA\n' >&2
    exit 2
fi
cublas=nvidia-cublas
[ "$cuda" != 12 ] || cublas=nvidia-cublas-cu12

folder="build/on_gpu"
[ -n "$dry" ] || { folder="$(mktemp -d)" && trap 'rm -rf "$folder"' EXIT; }
export PIP_CONSTRAINT="$PWD/constraints.txt" JTORCH_CACHE="$folder/kernels" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
step "${PYTHON:-python3}" -m venv "$folder/venv"
step "$folder/venv/bin/python" -m pip install --quiet -e ".[cuda,bench,test]" "$cublas"
step mkdir -p build
checks=("$folder/venv/bin/python" -m tests.cuda.prove "$@")
printf '+ %s\n' "${checks[*]}"
[ -n "$dry" ] || "${checks[@]}" 2>&1 | tee build/on_gpu.txt
