#!/bin/sh
# Fetch the packages that benchmarks/gpu.py needs beside torch, as wheels, for a machine without a network:
#
#     benchmarks/gpu_wheels.sh [FOLDER [NAME...]]
#
# FOLDER is .whl in the project by default. The six packages by default are those that a machine with torch,
# torchvision, pyarrow, rich and safetensors lacks. Versions and hashes are those of envs/requirements.lock.
# PYTHON_VERSION is that of the other machine, 3.12 by default. On that machine, in the project, where SITE is
# any folder:
#
#     python3 -m pip install --no-index --no-deps --target SITE .whl/*.whl
#     PYTHONPATH=SITE python3 benchmarks/gpu.py
set -eu
project=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$project/.whl}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- pydantic pydantic-core annotated-types typing-inspection typing-extensions greenlet
wanted=$(mktemp)
trap 'rm -f "$wanted"' EXIT

for name in "$@"; do
    # A package and the lines with its hashes, which are indented.
    awk -v name="$name" '
        /^[^ #]/ { inside = index($0, name "==") == 1 }
        inside && !/#/
    ' "$project/envs/requirements.lock" >> "$wanted"
    grep -q "^$name==" "$wanted" || {
        echo "gpu_wheels.sh: envs/requirements.lock has no $name: name a package as it stands there" >&2
        exit 2
    }
done
# pip takes each of these as it is, and not the older ones that it contains.
platforms=$(printf -- '--platform manylinux_2_%s_x86_64 ' 28 27 24 17)
mkdir -p "$folder"
rm -f "$folder"/*.whl  # two versions of a package could not be installed
# shellcheck disable=SC2086 # these are several words
"${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --require-hashes --implementation cp --python-version "${PYTHON_VERSION:-3.12}" \
    $platforms --platform manylinux2014_x86_64 --dest "$folder" --requirement "$wanted"
ls "$folder"
