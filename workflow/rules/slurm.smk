# What the rules whose jobs run on a cluster with Slurm have in common.
from thinwire.pipeline import job_memory, slurm_conf, slurm_resources

slurm_conf.hand_on()
