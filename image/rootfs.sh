#!/usr/bin/env bash
# Puts everything that the image holds into a folder, from a Debian that has the packages of
# image/packages installed. The Dockerfile uses it, and so does the test that runs the operator there.
#
#   rootfs.sh PROGRAM FOLDER
set -euo pipefail

program=$1
root=$2
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
git_core=$(git --exec-path)

# A file under the same path, and the libraries that it needs.
put() {
  [ ! -e "$root$1" ] || return 0
  mkdir -p "$root$(dirname "$1")"
  cp --dereference --preserve=mode "$1" "$root$1"
  put_libraries "$1"
}

put_libraries() {
  local library
  head --bytes=4 "$1" | grep --quiet ELF || return 0
  for library in $(ldd "$1" 2>/dev/null | grep --only-matching '/[^ ]*'); do
    put "$library"
  done
}

mkdir -p "$root"/{dev,etc,proc,tmp,usr/bin,usr/local/bin,var/cache/gitops-reverser,usr/lib,bin,lib,lib64}
chmod 1777 "$root/tmp"
# Any user may be the one: platforms choose.
chmod 0777 "$root/var/cache/gitops-reverser"

# git, the commands of it that the operator runs, and what it speaks HTTP and SSH with.
for file in /usr/bin/git /usr/bin/ssh /bin/bash; do put "$file"; done
for command in git git-remote-http git-remote-https git-fetch-pack git-send-pack; do
  put "$git_core/$command"
done
mkdir -p "$root/usr/share/git-core/templates"
ln -sf bash "$root/bin/sh"

# Names of hosts, users and authorities.
multiarch=/usr/lib/$(gcc -dumpmachine 2>/dev/null || echo "$(uname -m)-linux-gnu")
for library in libnss_dns.so.2 libnss_files.so.2 libnss_wrapper.so; do
  for folder in "$multiarch" "/lib/$(basename "$multiarch")"; do
    if [ -e "$folder/$library" ]; then put "$folder/$library"; break; fi
  done
done
put /etc/ssl/certs/ca-certificates.crt
printf 'hosts: files dns\npasswd: files\ngroup: files\n' >"$root/etc/nsswitch.conf"
printf 'root:x:0:0:root:/root:/bin/sh\nreverser:x:65532:65532:GitOps Reverser:/tmp:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nreverser:x:65532:\n' >"$root/etc/group"

# Before the real one on PATH: it helps users that /etc/passwd does not know.
install -m 0755 "$here/ssh" "$root/usr/local/bin/ssh"
install -m 0755 "$program" "$root/usr/local/bin/gitops-reverser"
put_libraries "$program"
