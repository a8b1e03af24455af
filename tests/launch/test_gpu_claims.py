"""Each job on a workstation has GPUs of its own. A program on PATH stands in for nvidia-smi."""

import os
import signal
import tempfile
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from thinwire.base import nvidia_smi
from thinwire.base.errors import ResourceError, UserError
from thinwire.config.expand import cells
from thinwire.launch import placement
from thinwire.launch.placement import claim, gpus_claimed, gpus_of, gpus_of_preparation
from thinwire.records import provenance
from thinwire.records.provenance import about_this_process

CELL = cells("demo")[0]
NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --query-gpu=index,uuid) printf '0, GPU-aa\\n1, GPU-bb\\n2, GPU-cc\\n' ;;
  --query-gpu=driver_version) printf '550.54.14\\n550.54.14\\n' ;;
  --query-gpu=name) printf 'NVIDIA A100-SXM4-80GB\\nNVIDIA A100, of MIG\\n' ;;
  --query-compute-apps=gpu_uuid,pid,process_name) printf "$COMPUTING" ;;
  --query-gpu=uuid,pci.bus_id) printf 'GPU-aa, 00000000:3B:00.0\\nGPU-bb, 00000000:86:00.0\\n' ;;
  *) exit 1 ;;
esac
"""


# The services of NVIDIA are no other runs.
COMPUTING = """GPU-bb, 17, python
GPU-bb, 18, /a folder, with a comma/python
GPU-bb, 19, [Not Found]
GPU-cc, 20, python
GPU-cc, 21, nvidia-cuda-mps-server
GPU-cc, 22, /usr/bin/nv-hostengine
"""


def install(folder, text=NVIDIA_SMI):
    program = folder / "nvidia-smi"
    program.write_text(text)
    program.chmod(0o755)


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine with three GPUs, and no lock on any of them."""
    install(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("COMPUTING", COMPUTING)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, ["GPU-aa", "GPU-bb", "GPU-cc"]),
        ("2,0", ["GPU-cc", "GPU-aa"]),
        ("GPU-b", ["GPU-bb"]),
        ("", []),
        ("-1", []),
    ],
)
def test_the_gpus_are_those_that_the_user_lets_commands_see(monkeypatch, visible, found):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert nvidia_smi.visible_gpus() == found


def test_gpus_have_names_whatever_commands_may_see(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert nvidia_smi.names() == ["NVIDIA A100-SXM4-80GB", "NVIDIA A100, of MIG"]


def test_without_nvidia_smi_or_its_driver_no_gpu_is_known(machine, monkeypatch):
    install(machine, "#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    assert nvidia_smi.visible_gpus() == []
    monkeypatch.setenv("PATH", "/nonexistent")
    assert nvidia_smi.visible_gpus() == []
    with gpus_claimed(1):
        assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_driver_that_hangs_is_one_sentence_and_no_gpu_is_taken_for_free(machine, monkeypatch):
    install(machine, "#!/bin/sh\necho '0, GPU-aa'; exec sleep 600\n")
    monkeypatch.setattr(nvidia_smi, "_MOST_SECONDS", 0.05)
    for ask in (nvidia_smi.visible_gpus, lambda: nvidia_smi.processes_on("GPU-aa")):
        with pytest.raises(
            ResourceError, match=r"nvidia-smi does not answer within 0 s, so a GPU of .* hangs"
        ):
            ask()


def test_a_cell_needs_a_gpu_for_each_process_of_a_node():
    cell = replace(CELL, workers=8, nodes=2, device="cuda", transport="processes")
    assert (gpus_of(cell), gpus_of_preparation(cell)) == (4, 1)
    assert gpus_of(replace(cell, transport="inprocess")) == 1
    assert (gpus_of(CELL), gpus_of_preparation(CELL)) == (0, 0)


def test_a_job_sees_its_own_gpus_and_afterwards_those_of_before(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    with gpus_claimed(1):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-cc"
    with gpus_claimed(3):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-cc,GPU-bb", "no more than there are"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,1"


def test_nothing_is_claimed_on_cpus_and_in_jobs_of_slurm(machine, monkeypatch):
    with gpus_claimed(0):
        assert "CUDA_VISIBLE_DEVICES" not in os.environ
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with gpus_claimed(1):
        assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert not list(machine.glob("thinwire-gpus-*"))


def test_no_two_jobs_share_a_gpu_and_one_that_finds_too_few_waits(monkeypatch, capsys):
    gpus = nvidia_smi.visible_gpus()
    first = claim(gpus, 2)
    assert first.__enter__() == ["GPU-aa", "GPU-bb"]

    def wait(seconds):
        """While a job waits for two, it does not keep the one that is free."""
        with claim(gpus, 1) as own:
            assert own == ["GPU-cc"]
        first.__exit__(None, None, None)

    monkeypatch.setattr(placement.time, "sleep", wait)
    with claim(gpus, 2) as own:
        assert own == ["GPU-aa", "GPU-bb"]
    assert capsys.readouterr().out == "waits for 2 of 3 GPUs: other runs have claimed them\n"


def test_a_gpu_is_free_when_the_last_process_of_its_job_has_ended(monkeypatch):
    """Ranks may outlive the process that started them, and then they still use its GPU."""
    claimed = claim(["GPU-aa"], 1)
    claimed.__enter__()
    rank = os.fork()
    if not rank:
        signal.pause()
    claimed.__exit__(None, None, None)

    def wait(seconds):
        os.kill(rank, signal.SIGKILL)
        os.waitpid(rank, 0)

    waited = []
    monkeypatch.setattr(time, "sleep", lambda seconds: waited.append(wait(seconds)))
    with claim(["GPU-aa"], 1) as own:
        assert own == ["GPU-aa"]
    assert len(waited) == 1


def test_a_folder_of_locks_that_is_not_the_users_own_is_refused(machine):
    (machine / "elsewhere").mkdir()
    (machine / f"thinwire-gpus-{os.geteuid()}").symlink_to(machine / "elsewhere")
    with pytest.raises(UserError, match="is no folder of yours: remove it"), claim(["GPU-aa"], 1):
        pass


def test_the_cores_near_a_gpu_are_known_where_linux_knows_them(machine, monkeypatch):
    monkeypatch.setattr(nvidia_smi, "_PCI", machine)
    (machine / "0000:3b:00.0").mkdir()
    (machine / "0000:3b:00.0/local_cpulist").write_text("0-2,8\n")
    assert [nvidia_smi.cores_near(f"GPU-{name}") for name in ("aa", "bb", "dd")] == [[0, 1, 2, 8], [], []]


@pytest.mark.parametrize(("uuid", "others"), [("aa", 0), ("bb", 2), ("cc", 0)])
def test_a_rank_counts_the_other_processes_on_its_gpu(monkeypatch, uuid, others):
    properties = SimpleNamespace(uuid=uuid, name="NVIDIA A100-SXM4-40GB")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    about = about_this_process(torch.device("cuda", 0))
    assert (about["device"], about["other_processes"]) == (uuid, others)
    assert (about["gpu"], about["driver"]) == ("NVIDIA A100-SXM4-40GB", "550.54.14")
    assert about["cores_near_gpu"] == []
    assert "other_processes" not in about_this_process(torch.device("cpu"))


def test_a_rank_knows_the_links_of_its_machine(machine, monkeypatch):
    """Virtual links have no speed, or one below zero."""
    for name, speed in {"eth0": "25000", "ib0": "-1"}.items():
        (machine / "net" / name).mkdir(parents=True)
        (machine / "net" / name / "speed").write_text(f"{speed}\n")
    (machine / "net/lo").mkdir()
    for port, state, rate in (("1", "4: ACTIVE", "200 Gb/sec (4X HDR)"), ("2", "1: DOWN", "2.5 Gb/sec (1X)")):
        folder = machine / "infiniband/mlx5_0/ports" / port
        folder.mkdir(parents=True)
        (folder / "state").write_text(f"{state}\n")
        (folder / "rate").write_text(f"{rate}\n")
    monkeypatch.setattr(provenance, "_NETWORKS", machine / "net")
    monkeypatch.setattr(provenance, "_INFINIBAND", machine / "infiniband")
    about = about_this_process(torch.device("cpu"))
    assert about["links"] == {"eth0": "25000 Mbit/s", "mlx5_0/1": "200 Gb/sec (4X HDR)"}
