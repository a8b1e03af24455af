#!/bin/sh
# Set up .venv from requirements.lock. Needs Python 3.11 or newer and nothing else; does nothing where
# nothing changed since the last time.
#
# torch comes by itself: the index of the machine decides between a CPU and a CUDA build. Everything else
# comes from the lock with its hashes checked. uv takes seconds where pip takes minutes; pip is the fallback.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=.venv
torch=$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' envs/requirements.in)

say() { echo "setup: $*" >&2; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    say "thinwire needs Python 3.11 or newer and '$python' is not; name another one: make setup PYTHON=python3.12"
    exit 1
}
# The folder is part of the stamp: a virtual environment does not survive being moved.
stamp="$(pwd) $("$python" -V) $(cat envs/requirements.in envs/requirements.lock pyproject.toml envs/setup.sh | cksum)"
[ "$(cat $venv/.stamp 2>/dev/null)" != "$stamp" ] || exit 0

say "installing into $venv (once; about a minute)"
rm -rf $venv
"$python" -m venv $venv || {
    say "Python could not make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv"
    exit 1
}
if $venv/bin/python -m pip install --quiet uv==0.13.9 2>/dev/null; then
    # uv does not read pip's settings, and a machine's own wheels are named there
    links=${PIP_FIND_LINKS:-$($venv/bin/python -m pip config get global.find-links 2>/dev/null || true)}
    [ -z "$links" ] || export UV_FIND_LINKS="${UV_FIND_LINKS:-$(echo "$links" | tr ' ' ',')}"
    install() { $venv/bin/uv pip install --quiet --compile-bytecode --python $venv/bin/python "$@"; }
else
    say "uv cannot be had here; pip does it, slower"
    install() { $venv/bin/python -m pip install --quiet "$@"; }
fi
install "$torch"
install --no-deps --require-hashes -r envs/requirements.lock
install --no-deps --no-build-isolation --editable .
echo "$stamp" > $venv/.stamp
