#!/bin/sh
# Installs the library by which tests let the clock of one process jump, if the machine does not have it.
set -eu

for library in /usr/lib/*/faketime/libfaketimeMT.so.1; do
    [ -e "$library" ] && exit 0
done

if ! command -v apt-get >/dev/null 2>&1; then
    echo "install libfaketime with your package manager" >&2
    exit 1
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
$sudo env DEBIAN_FRONTEND=noninteractive sh -c "
    apt-get update -qq &&
    apt-get install -y -qq --no-install-recommends libfaketime" >/dev/null
