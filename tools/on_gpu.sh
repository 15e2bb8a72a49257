#!/usr/bin/env bash
# On a machine with a CUDA device: a fresh environment, and the checks on that device in it.
#   tools/on_gpu.sh [--dry-run] [--here] [ARGUMENTS]      of `python -m tests.cuda.prove`
# --dry-run says what would be done, and does nothing. PYTHON names another Python. pip gets some hundred megabytes;
# --here takes PYTHON as it is, for a machine without network: it needs what jtorch needs, numba-cuda, a cuBLAS,
# pytest and pytest-xdist. What stays is build/on_gpu.txt, which the checks have printed. They may take LIMIT
# seconds, 400 if not said; then compute-sanitizer has a minute for each of its two tools, where there is one.
set -euo pipefail
exec < /dev/null
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dry="" here=""
while :; do
    case "${1:-}" in
        --dry-run) dry=1 ;;
        --here) here=1 ;;
        *) break ;;
    esac
    shift
done
step() { # say a command, and run it
    printf '+ %s\n' "$*"
    [ -n "$dry" ] || "$@"
}

# cuBLAS of CUDA 13 wants a driver for that. What compiles kernels wants none, and they are for drivers from 12.3 on.
cuda="$( (nvidia-smi 2> /dev/null || true) | sed -n 's/.*CUDA Version: \([0-9]*\).*/\1/p')"
if [ -z "$cuda" ] && [ -z "$dry$here" ]; then
    printf 'no NVIDIA driver on this machine: nvidia-smi tells no version of CUDA\n' >&2
    exit 2
fi
cublas=nvidia-cublas extra=cuda
[ "$cuda" != 12 ] || cublas=nvidia-cublas-cu12 extra=cuda12

folder="build/on_gpu"
[ -n "$dry" ] || { folder="$(mktemp -d)" && trap 'rm -rf "$folder"' EXIT; }
export PIP_CONSTRAINT="$PWD/constraints.txt" JTORCH_CACHE="$folder/kernels" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
python="${PYTHON:-python3}"
if [ -z "$here" ]; then
    step "$python" -m venv "$folder/venv"
    python="$folder/venv/bin/python"
    step "$python" -m pip install --quiet -e ".[$extra,bench,test]" "$cublas"
fi
step mkdir -p build

checks() { # LIMIT PREFIX... -- run the checks that the arguments ask for, and keep what they print
    local limit="$1"
    shift
    printf '+ timeout %s %s\n' "$limit" "$*"
    [ -n "$dry" ] || timeout "$limit" "$@" 2>&1 | tee -a build/on_gpu.txt
}
[ -n "$dry" ] || : > build/on_gpu.txt
status=0
checks "${LIMIT:-400}" "$python" -m tests.cuda.prove "$@" || status=$?

# What no run alone shows. Their absence is told, and is no failure; what they find is one.
sanitizer="$(command -v compute-sanitizer || true)"
if [ -z "$sanitizer" ]; then
    printf '+ no compute-sanitizer on this machine: memcheck and racecheck are left out\n'
else
    for tool in memcheck racecheck; do
        checks 60 "$sanitizer" --tool "$tool" --error-exitcode 3 "$python" -m tests.cuda.prove -k "words or draws" || {
            found=$?
            [ "$found" = 124 ] && printf '+ %s took too long, and says nothing\n' "$tool" || status=$found
        }
    done
fi
exit "$status"
