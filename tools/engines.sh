#!/bin/sh
# Makes the environments of real engines, beside this project's own: the versions are pinned in tests/engines/NAME.lock.
#
#   PYTHON=python3.13 sh tools/engines.sh mlx             makes .venv-mlx (0.4 GB; Linux on CPU, or a Mac)
#   TORCH=https://download.pytorch.org/whl/cpu/torch/ PYTHON=python3.11 sh tools/engines.sh vllm sglang
#                                                         makes .venv-vllm (3.4 GB) and .venv-sglang (0.4 GB; it uses what is in the first)
#
# TORCH is a folder, or the address of a page of links, where pip finds the build of torch for CPUs. vLLM and SGLang run on Linux.
set -eu

stop() {
    printf '%s\n' "$1" >&2
    exit 1
}

# The environment's version is the lock's: nothing is done when it was made after the lock was last changed.
make_environment() {
    lock=tests/engines/$1.lock
    venv=.venv-$1
    [ -e "$lock" ] || stop "no engine is called $1; there is: $(ls tests/engines/*.lock)"
    if [ -e "$venv/.installed" ] && [ ! "$lock" -nt "$venv/.installed" ]; then return; fi
    if grep -q '^torch==' "$lock" && [ -z "${TORCH:-}" ]; then
        stop "$1 needs TORCH=folder or address, where pip finds the CPU build of $(grep '^torch==' "$lock"), as https://download.pytorch.org/whl/cpu/torch/"
    fi
    echo "making $venv" >&2
    "${PYTHON:-python3}" -m venv --clear "$venv"
    if [ "$1" = sglang ]; then use_packages_of_vllm; fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
        ${TORCH:+--find-links "$TORCH"} -r "$lock" >&2 ||
        stop "pip could not install what $lock names; its reason stands above."
    touch "$venv/.installed"
}

# SGLang's lock has only what vLLM's does not: torch alone is 0.8 GB.
use_packages_of_vllm() {
    (make_environment vllm)
    where='import sysconfig; print(sysconfig.get_paths()["purelib"])'
    ./.venv-vllm/bin/python -c "$where" >"$(.venv-sglang/bin/python -c "$where")/packages_of_vllm.pth"
}

for name in "$@"; do make_environment "$name"; done
