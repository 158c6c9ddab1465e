#!/usr/bin/env bash
# Puts what is released into dist/: the binary, the chart, install.yaml, and their checksums.
# PROGRAM is the binary, if it is not target/release/gitops-reverser; DIST is another folder.
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."
version=$(hack/version.sh)
if [ -z "${PROGRAM:-}" ]; then
  target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
  PROGRAM=$target/release/gitops-reverser
fi
tools=$(hack/control-plane/build.sh --print-tools-dir kubectl helm)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

dist=${DIST:-dist}
rm -rf "$dist"
mkdir -p "$dist"
platform=$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)
# By this name kubectl finds it as a plugin.
plugin=$(mktemp -d)
trap 'rm -rf "$plugin"' EXIT
ln -s gitops-reverser "$plugin/kubectl-reverser"
# The same bytes from the same commit.
tar --create --gzip --owner=0 --group=0 --numeric-owner --sort=name --mtime="@$epoch" \
  --file="$dist/gitops-reverser-$version-$platform.tar.gz" \
  --directory="$(dirname "$PROGRAM")" gitops-reverser --directory="$plugin" kubectl-reverser \
  --directory="$PWD" LICENSE README.md
"$tools/helm" package --destination "$dist" charts/gitops-reverser >/dev/null
"$tools/kubectl" kustomize config/default >"$dist/install.yaml"
(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -l "$dist"
