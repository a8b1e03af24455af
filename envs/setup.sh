#!/bin/sh
# Set up .venv from requirements.lock. Needs only Python 3.11 or newer. Does nothing if nothing has changed
# since the last time.
#
# torch is installed separately: the machine's package index decides between a CPU and a CUDA build. Everything
# else comes from the lock, and its hashes are checked. uv takes seconds, pip takes minutes and is the fallback.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=.venv
torch=$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' envs/develop.in)

say() { echo "setup: $*" >&2; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    say "thinwire needs Python 3.11 or newer and '$python' is not; name another one: make setup PYTHON=python3.12"
    exit 1
}
# The folder is part of the stamp: a virtual environment does not survive being moved.
stamp="$(pwd) $("$python" -V) $(cat envs/*.in envs/requirements.lock envs/*.py pyproject.toml envs/setup.sh | cksum)"
is_current() { [ "$(cat $venv/.stamp 2>/dev/null)" = "$stamp" ]; }
! is_current || exit 0
# Two at once would each remove what the other installs: the second one waits, and finds it done.
exec 9< envs/setup.sh
flock --nonblock 9 || { say "waiting for another set-up of this checkout"; flock 9; }
! is_current || exit 0

say "installing into $venv (once; about a minute)"
rm -rf $venv
"$python" -m venv $venv || {
    say "Python could not make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv"
    exit 1
}
if $venv/bin/python -m pip install --quiet uv==0.13.9 2>/dev/null; then
    # uv does not read pip's settings, where a machine may name a place with wheels
    links=${PIP_FIND_LINKS:-$($venv/bin/python -m pip config get global.find-links 2>/dev/null || true)}
    [ -z "$links" ] || export UV_FIND_LINKS="${UV_FIND_LINKS:-$(echo "$links" | tr ' ' ',')}"
    install() { $venv/bin/uv pip install --quiet --compile-bytecode --python $venv/bin/python "$@"; }
else
    say "uv cannot be installed here; pip is used instead, which is slower"
    install() { $venv/bin/python -m pip install --quiet "$@"; }
fi
install "$torch"
install --no-deps --require-hashes -r envs/requirements.lock
install --no-deps --no-build-isolation --editable .
declare=declare_torchvision_operators # says what it is for
packages=$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp envs/$declare.py "$packages"
echo "import $declare" > "$packages/$declare.pth"
echo "$stamp" > $venv/.stamp
