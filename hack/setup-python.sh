#!/usr/bin/env bash
# Installs PyYAML for the tests that ask Python how it reads our files, and prints the folder to put
# on PYTHONPATH. Silent and quick if it is there. A folder of its own, because distributions forbid
# installing into their Python.
set -euo pipefail

version=6.0.3
cache=${REVERSER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gitops-reverser}
folder=$cache/python/pyyaml-$version

if ! command -v python3 >/dev/null; then
  echo 'python3 is missing: install Python 3.9 or newer' >&2
  exit 1
fi
# Python writes the interpreter's version into compiled modules: another Python needs its own.
folder=$folder-$(python3 -c 'import sys; print("py%d.%d" % sys.version_info[:2])')
if [ ! -d "$folder" ]; then
  if ! python3 -m pip --version >/dev/null 2>&1; then
    echo 'pip is missing: install it for python3 (Debian: apt-get install python3-pip)' >&2
    exit 1
  fi
  echo "installing PyYAML $version" >&2
  partial=$folder.$$
  mkdir -p "$cache/python"
  trap 'rm -rf "$partial"' EXIT
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$partial" "pyyaml==$version" >&2
  mv -T "$partial" "$folder" 2>/dev/null || [ -d "$folder" ]
fi
printf '%s\n' "$folder"
