#!/bin/sh
# Makes the virtual environment that a make target needs, or says in one line what the machine lacks.
#
#   PYTHON=python3.13 VENV=.venv sh tools/environment.sh server|dev
#
# Nothing is done when the extra was installed after pyproject.toml was last changed. An empty PYTHON takes the first
# interpreter on the PATH that is new enough.
set -eu

extra=$1
venv=${VENV:-.venv}
stamp=$venv/.installed-$extra

stop() {
    printf '%s\n' "$1" >&2
    exit 1
}

fresh() { [ -e "$1" ] && [ ! pyproject.toml -nt "$1" ]; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if command -v "$name" >/dev/null 2>&1 && new_enough "$name"; then
            echo "$name"
            return
        fi
    done
}

# An environment with everything for developers has all that the server needs.
if [ -x "$venv/bin/python" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    if fresh "$stamp"; then exit 0; fi
    if [ "$extra" = server ] && fresh "$venv/.installed-dev"; then exit 0; fi
else
    python=$(find_python)
    if [ -z "$python" ]; then
        [ -z "${PYTHON:-}" ] || stop "PYTHON=$PYTHON is not there or older than Python 3.11."
        if command -v python3 >/dev/null 2>&1; then
            stop "Python 3.11 or newer is needed: apt-get install -y python3.11 python3.11-venv"
        fi
        stop "Python 3.11 or newer is needed: apt-get install -y python3 python3-venv"
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        case $python in
            python3.*) package=$python-venv ;;
            *) package=python3-venv ;;
        esac
        stop "Python's venv module is needed: apt-get install -y $package"
    fi
    echo "making $venv with $("$python" --version)" >&2
    "$python" -m venv --clear "$venv"
fi

# On a terminal the line counts the seconds; elsewhere it is written once.
what="installing smg-sdk[$extra] into $venv"
said=$(mktemp)
trap 'rm -f "$said"' EXIT
begun=$(date +%s)
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -e ".[$extra]" >"$said" 2>&1 &
pip=$!
trap 'kill "$pip" 2>/dev/null; exit 130' INT TERM
if [ -t 2 ]; then
    while kill -0 "$pip" 2>/dev/null; do
        printf '\r%s: %s s' "$what" "$(($(date +%s) - begun))" >&2
        sleep 1
    done
    echo >&2
else
    echo "$what" >&2
fi
if ! wait "$pip"; then
    cat "$said" >&2
    stop "pip could not install smg-sdk[$extra]; its reason stands above."
fi
touch "$stamp"
