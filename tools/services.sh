#!/bin/sh
# Installs the Debian packages that `make test-services` runs against, and the MCP servers from npm: peers and tools that are no
# Python packages. For .ci/run and people, as root, on a machine with apt-get; says what it did. Does nothing where all are there.
set -eu

# command:package
wanted='promtool:prometheus dnsmasq:dnsmasq-base chromium:chromium stress-ng:stress-ng ip:iproute2 tc:iproute2 node:nodejs npm:npm clang:clang wasm-ld:lld pgbouncer:pgbouncer espeak-ng:espeak-ng turnserver:coturn'

# From npm, into build/services: a file of the folder node_modules, and the package that has it
servers='.bin/mcp-server-everything:@modelcontextprotocol/server-everything@2026.8.31
.bin/mcp-server-filesystem:@modelcontextprotocol/server-filesystem@2026.8.31
.bin/mcp-server-memory:@modelcontextprotocol/server-memory@2026.8.31
.bin/jco:@bytecodealliance/jco@1.35.0
@modelcontextprotocol/sdk/package.json:@modelcontextprotocol/sdk@1.32.2'
folder=$(dirname "$0")/../build/services

install_servers() {
    absent=''
    for each in $servers; do
        [ -e "$folder/node_modules/${each%%:*}" ] || absent="$absent ${each#*:}"
    done
    [ -n "$absent" ] || { echo "services: the servers from npm are here"; return 0; }
    mkdir -p "$folder"
    npm install --prefix "$folder" --no-audit --no-fund --loglevel=error $absent || {
        echo "services: npm could not install:$absent" >&2
        return 1
    }
    echo "services: installed from npm:$absent"
}

# componentize-py, by which `smg-gateway interpreter build` makes the interpreter of containers, and pocketsphinx, which writes down
# what espeak-ng says
install_from_pypi() {
    "$folder/python/bin/python" -c 'import pocketsphinx' 2>/dev/null && [ -x "$folder/python/bin/componentize-py" ] && {
        echo "services: componentize-py and pocketsphinx are here"
        return 0
    }
    python3 -m venv "$folder/python" && "$folder/python/bin/pip" install --quiet 'componentize-py>=0.25,<0.26' 'pocketsphinx>=5.1,<5.2' || {
        echo "services: pip could not install componentize-py and pocketsphinx" >&2
        return 1
    }
    echo "services: installed componentize-py and pocketsphinx"
}

PATH=$PATH:/usr/sbin:/sbin
missing='' there=''
for each in $wanted; do
    if command -v "${each%%:*}" >/dev/null 2>&1; then
        there="$there ${each%%:*}"
    else
        missing="$missing ${each#*:}"
    fi
done
echo "services: already here:${there:- nothing}"
if [ -z "$missing" ]; then
    install_servers
    install_from_pypi
    exit
fi

command -v apt-get >/dev/null 2>&1 || { echo "services: not here:$missing, and there is no apt-get to install them" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || { echo "services: not here:$missing; run this as root" >&2; exit 1; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# Prometheus comes with a server that would be started; promtool is all that is used of it.
policy=/usr/sbin/policy-rc.d
made=
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    made=1
fi
status=0
{ apt-get -q update && apt-get -q install -y --no-install-recommends $missing; } >"$log" 2>&1 || status=$?
[ -z "$made" ] || rm -f "$policy"
if [ "$status" -ne 0 ]; then
    tail -20 "$log" >&2
    echo "services: apt-get could not install:$missing" >&2
    exit 1
fi
for each in $wanted; do
    command -v "${each%%:*}" >/dev/null 2>&1 || { echo "services: ${each%%:*} is not there after ${each#*:} was installed" >&2; exit 1; }
done
echo "services: installed:$missing"
install_servers
install_from_pypi
