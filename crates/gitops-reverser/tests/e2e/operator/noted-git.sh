#!/bin/sh
# git, as the operators of tests find it: what it is asked is noted beside the folder of the clones.
if [ -n "${GITOPS_REVERSER_MIRROR:-}" ]; then
    echo "$*" >> "${GITOPS_REVERSER_MIRROR%/*}.asked"
fi
exec git "$@"
