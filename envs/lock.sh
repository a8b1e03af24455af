#!/bin/sh
# Write requirements.lock again from requirements.in and develop.in. Run it after a change of either, in a
# set-up checkout. torch and what only its CUDA build needs stay out: setup.sh installs torch by itself, so
# that one lock serves machines with and without a GPU.
set -eu
cd "$(dirname "$0")"
../.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
    --no-emit-package torch develop.in |
    awk '/^[a-zA-Z0-9]/ { keep = !/^(nvidia-|cuda-|triton)/ } keep && !/^# The following|^# torch$/' \
    > requirements.lock
