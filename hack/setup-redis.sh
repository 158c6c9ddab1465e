#!/bin/sh
# Installs the Redis server that the tests of shared records run, if the machine has neither that nor
# Valkey. It is only installed: the tests start their own, on their own port.
set -eu

command -v redis-server >/dev/null 2>&1 && exit 0
command -v valkey-server >/dev/null 2>&1 && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "install redis-server or valkey-server with your package manager" >&2
    exit 1
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
# A package that starts its service would open a port on the developer's machine.
$sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 sh -c "
    apt-get update -qq &&
    apt-get install -y -qq --no-install-recommends redis-server" >/dev/null
