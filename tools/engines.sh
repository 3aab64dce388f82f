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

# Whether the environment was made after its lock was last changed.
made() { [ -e ".venv-$1/.installed" ] && [ ! "tests/engines/$1.lock" -nt ".venv-$1/.installed" ]; }

check() {
    lock=tests/engines/$1.lock
    [ -e "$lock" ] || stop "no engine is called $1; there are: mlx vllm sglang"
    if made "$1" || [ -n "${TORCH:-}" ] || ! torch=$(grep '^torch==' "$lock"); then return; fi
    stop "$1 needs TORCH=folder or address, where pip finds $torch, as https://download.pytorch.org/whl/cpu/torch/"
}

packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }

make_environment() {
    if made "$1"; then return; fi
    lock=tests/engines/$1.lock
    venv=.venv-$1
    echo "making $venv" >&2
    "${PYTHON:-python3}" -m venv --clear "$venv"
    # SGLang's lock has only what vLLM's does not: torch alone is 0.8 GB.
    if [ "$1" = sglang ]; then packages "$PWD/.venv-vllm" >"$(packages "$venv")/packages_of_vllm.pth"; fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
        ${TORCH:+--find-links "$TORCH"} -r "$lock" >&2 ||
        stop "pip could not install what $lock names; its reason stands above."
    touch "$venv/.installed"
}

names=$*
case " $names " in *" sglang "*) names="vllm $names" ;; esac
for name in $names; do check "$name"; done
for name in $names; do make_environment "$name"; done
