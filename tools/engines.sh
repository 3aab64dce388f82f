#!/bin/sh
# Makes the environment of a real engine, beside this project's own: the versions are pinned in tests/engines/NAME.lock.
#
#   PYTHON=python3.13 sh tools/engines.sh mlx       makes .venv-mlx (0.4 GB; Linux on CPU, or a Mac)
set -eu

name=$1
lock=tests/engines/$name.lock
venv=.venv-$name
stamp=$venv/.installed

[ -e "$lock" ] || { echo "no engine is called $name; there is: $(ls tests/engines/*.lock)" >&2; exit 1; }
if [ -e "$stamp" ] && [ ! "$lock" -nt "$stamp" ]; then exit 0; fi
echo "making $venv" >&2
"${PYTHON:-python3}" -m venv --clear "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps -r "$lock" >&2 ||
    { echo "pip could not install what $lock names; its reason stands above." >&2; exit 1; }
touch "$stamp"
