#!/bin/sh
# Install the browser in which the page of results is tested, on Debian and Ubuntu, as root. Does nothing if it is
# installed.
set -eu
say() { echo "chromium: $*" >&2; }

for program in chromium chromium-browser google-chrome; do
    command -v "$program" >/dev/null && exit 0
done
command -v apt-get >/dev/null || {
    say "apt-get is not here; install Chromium another way"
    exit 1
}
[ "$(id -u)" = 0 ] || {
    say "only root can install Chromium: sudo envs/chromium.sh"
    exit 1
}
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-install-recommends chromium >/dev/null; }
install 2>/dev/null || { apt-get update -qq && install; } || {
    say "apt-get could not install chromium; its output is above"
    exit 1
}
