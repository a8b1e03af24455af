#!/bin/sh
# Install what the tests of Slurm need, on Debian and Ubuntu, as root. Does nothing if it is installed.
set -eu
say() { echo "slurm: $*" >&2; }

present() { for program; do command -v "$program" >/dev/null || return 1; done; }
needed() { PATH=$PATH:/usr/sbin:/sbin present munged mariadbd slurmdbd slurmctld slurmd srun; }
needed && exit 0

command -v apt-get >/dev/null || {
    say "apt-get is not here; install munge, MariaDB and Slurm with its daemons another way"
    exit 1
}
[ "$(id -u)" = 0 ] || {
    say "only root can install Slurm: sudo envs/slurm.sh"
    exit 1
}
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-install-recommends slurm-wlm slurmdbd munge mariadb-server >/dev/null; }
install 2>/dev/null || { apt-get update -qq && install; } || {
    say "apt-get could not install slurm-wlm, slurmdbd, munge and mariadb-server; its output is above"
    exit 1
}
