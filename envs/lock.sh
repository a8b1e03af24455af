#!/bin/sh
# Write requirements.lock anew from requirements.in and develop.in. Run it after a change of either, in a
# checkout that was set up. torch and the packages of its CUDA build are left out: setup.sh installs torch
# separately, so that one lock serves machines with and without a GPU.
set -eu
cd "$(dirname "$0")"
../.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
    --no-emit-package torch develop.in |
    awk '/^[a-zA-Z0-9]/ { keep = !/^(nvidia-|cuda-|triton)/ } keep && !/^# The following|^# torch$/' \
    > requirements.lock
