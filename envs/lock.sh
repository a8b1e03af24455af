#!/bin/sh
# Write requirements.lock from requirements.in and develop.in. Run it after a change of either, in a checkout that
# was set up. It keeps the versions that the lock has; `envs/lock.sh --upgrade` takes the newest. torch and the
# packages of its CUDA build are left out: setup.sh installs torch separately, so that one lock serves machines
# with and without a GPU.
set -eu
cd "$(dirname "$0")"
new=$(mktemp)
trap 'rm -f "$new"' EXIT
cp requirements.lock "$new" # uv keeps the versions of the file that it writes
../.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
    --no-emit-package torch --output-file "$new" "$@" develop.in > /dev/null
awk '/^[a-zA-Z0-9]/ { keep = !/^(nvidia-|cuda-|triton)/ } keep && !/^# The following|^# torch$/' \
    "$new" > requirements.lock
