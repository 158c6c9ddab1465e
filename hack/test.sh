#!/usr/bin/env bash
# Runs the tests of the workspace; arguments go to cargo. Most of them run real processes against the
# clock of whatever machine this is, so up to three that fail are run a second time, by themselves. One
# that passes then is named at the end: it, or what it tests, has a race that wants to be found.
set -euo pipefail

few=3
log=$(mktemp)
trap 'rm -f "$log"' EXIT

cargo test --workspace --no-fail-fast "$@" 2>&1 | tee "$log" && exit

# The names of the failed tests stand, indented, under the last "failures:" of each test binary.
mapfile -t failed < <(awk '/^failures:$/ { listed = 1; next } /^[^ ]/ { listed = 0 } listed && /^    [^ ]+$/ { print $1 }' "$log" | sort -u)
if ((${#failed[@]} == 0 || ${#failed[@]} > few)); then
  exit 1
fi

echo
echo "again, by themselves: ${failed[*]}"
cargo test --workspace --no-fail-fast --tests -- --exact "${failed[@]}" 2>&1 | tee "$log"
passed=$(awk '/^test result: ok\./ { sum += $4 } END { print sum + 0 }' "$log")
if ((passed < ${#failed[@]})); then
  echo "ran again and passed: $passed of ${#failed[@]}" >&2
  exit 1
fi
echo "PASSED ONLY AT THE SECOND ATTEMPT: ${failed[*]}" >&2
