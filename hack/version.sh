#!/usr/bin/env bash
# Prints the version, which is in Cargo.toml and nowhere else (the chart's is compared by a test).
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."
sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1
