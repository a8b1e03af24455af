"""The parts of benchmarks/gpu.py, one file each."""
