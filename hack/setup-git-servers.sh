#!/bin/sh
# Installs what the tests of the Git engine need and the machine does not have: git with its HTTP
# backend and daemon, and OpenSSH's server, client and key generator. Says nothing if there is
# nothing to do. The SSH server is only installed: the tests start their own, on their own port.
set -eu

missing=""
need() {
    missing="$missing $1"
}

command -v git >/dev/null 2>&1 || need git
command -v ssh >/dev/null 2>&1 || need openssh-client
command -v ssh-keygen >/dev/null 2>&1 || need openssh-client
# Part of the image, which a test puts together.
[ -e "/usr/lib/$(uname -m)-linux-gnu/libnss_wrapper.so" ] || need libnss-wrapper
[ -x /usr/sbin/sshd ] || [ -x /usr/local/sbin/sshd ] || [ -x /usr/bin/sshd ] || need openssh-server

if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "install these with your package manager:$missing" >&2
        exit 1
    fi
    sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo"
    # A package that starts its service would open a port on the developer's machine.
    $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 sh -c "
        apt-get update -qq &&
        apt-get install -y -qq --no-install-recommends $missing" >/dev/null
fi

if [ ! -x "$(git --exec-path)/git-http-backend" ] || [ ! -x "$(git --exec-path)/git-daemon" ]; then
    echo "git is installed without http-backend or daemon: install your distribution's whole git package" >&2
    exit 1
fi
