"""What Slurm sends to the ranks before a time limit, as we configure it, and how long before."""

import signal

# On this signal, ranks save their state.
BEFORE_TIME_LIMIT = signal.SIGUSR1
# So long before the limit: enough to save a large state on a slow file system.
SAVING_SECONDS = 120
