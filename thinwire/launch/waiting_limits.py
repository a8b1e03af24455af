"""How long ranks wait for each other. How long a run may hang is `hang_seconds` of its suite."""

# How long the ranks have to find each other. A node that has not read a CUDA build of torch yet needs minutes
# to import it. If `hang_seconds` of the suite is less, it holds here too.
RENDEZVOUS_SECONDS = 600.0
# Between two beats of a rank.
BEAT_SECONDS = 0.5
# A process without a beat for so long is stopped, or its host is gone.
SILENT_SECONDS = 15.0
# If rank 0 did not beat itself for so long, it was stopped. Then it ignores what it missed meanwhile.
PAUSED_SECONDS = 5.0
# How long a rank that ends waits for the reports of the others. After twice as long its parent kills it.
GRACE_SECONDS = 3.0
