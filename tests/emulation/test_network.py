"""Emulated networks: who reaches whom, and what is said if there cannot be one."""

import json
import os
import socket
import subprocess
import traceback

import pytest

from thinwire.base.errors import UserError
from thinwire.emulation import emulated_run, network
from thinwire.emulation.network import INTERFACE, Network, address

pytestmark = pytest.mark.slow


def in_fork(do):
    """What `do` returns in a fork of this process, as JSON: a network namespace is of a whole process."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "it has raised something else"
        try:
            answer = do()
        except UserError as error:
            answer = str(error)
        except BaseException:
            answer = traceback.format_exc()
        finally:
            os.write(there, json.dumps(answer).encode())
            os._exit(0)
    os.close(there)
    with os.fdopen(here) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def on_node(made, node, do):
    def there():
        made.enter(node)
        return do()

    return in_fork(there)


def answers(made):
    """What each node hears from node 1."""
    heard = []
    for node in (0, 2):
        here, there = os.pipe()
        server = os.fork()
        if server == 0:
            try:
                made.enter(1)
                with socket.create_server((address(1), 5000)) as listener:
                    listener.settimeout(60)  # whoever should ask may have failed
                    os.write(there, b".")
                    connection, (peer, _) = listener.accept()
                    connection.sendall(peer.encode())
                    connection.close()
            finally:
                os._exit(0)
        os.close(there)
        os.read(here, 1)
        os.close(here)

        def ask():
            with socket.create_connection((address(1), 5000), timeout=60) as line:
                return line.recv(100).decode()

        heard.append(on_node(made, node, ask))
        os.waitpid(server, 0)
    return heard


def test_each_node_reaches_the_others_and_only_them(emulable):
    made = Network(3, 1e9)
    assert answers(made) == [address(0), address(2)]
    assert on_node(made, 1, lambda: sorted(name for _, name in socket.if_nameindex())) == [INTERFACE, "lo"]
    assert INTERFACE not in {name for _, name in socket.if_nameindex()} or os.path.exists(
        f"/sys/class/net/{INTERFACE}/device"
    )
    made.close()


def test_both_ends_of_a_link_are_limited(emulable):
    made = Network(2, 1.5e8)
    rate = on_node(made, 0, lambda: _rates(INTERFACE))
    assert rate == [1.5e8 / 8]
    made.close()


def _rates(interface):
    command = ["tc", "-j", "qdisc", "show", "dev", interface]
    limits = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return [limit["options"]["rate"] for limit in limits]


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (PermissionError(1, "no"), "it needs root, or user namespaces, which this system does not allow"),
        (OSError(28, "no"), "this system allows no more namespaces"),
        (FileNotFoundError(2, "no", "tc"), "there is no `tc`, which is part of iproute2"),
        (
            subprocess.CalledProcessError(1, ["tc"], "", "Error: unknown\n"),
            r"`tc` failed, so the kernel may lack veth, bridge or tbf \(Error: unknown\)",
        ),
    ],
)
def test_what_a_machine_lacks_is_said_in_a_sentence(monkeypatch, raised, sentence):
    def fails(*arguments):
        raise raised

    monkeypatch.setattr(network, "build", fails)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UserError, match=f"^this machine cannot emulate a network of 2 nodes: {sentence}"):
        Network(2, 1e9)


def test_more_nodes_than_can_be_made_are_refused(emulable):
    with pytest.raises(UserError, match="1024 nodes cannot be emulated: one machine joins at most 1023"):
        Network(1024, 1e9)

    def with_few_files():
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        Network(50, 1e9)

    before = len(os.listdir("/proc/self/fd"))
    if before > 20:
        pytest.skip("too many files are open")
    assert "nodes were made, so choose fewer" in in_fork(with_few_files)


def test_a_network_leaves_no_descriptors_open(emulable):
    before = os.listdir("/proc/self/fd")
    Network(2, 1e9).close()
    assert os.listdir("/proc/self/fd") == before


def test_the_meter_leaves_out_what_is_done_while_it_is_paused(monkeypatch):
    """Two workers on two nodes; here is the first one."""
    from thinwire.base.placement import Cluster
    from thinwire.traffic.ledger import Ledger
    from thinwire.traffic.wire_bytes import Wire

    class Alone:
        ranks = (0,)

        def share(self, own):
            return own * 2

    sent, ledger = [1000], Ledger()
    monkeypatch.setattr(emulated_run.network, "bytes_sent", lambda: sent[0])

    def send(payload):
        sent[0] += payload + 66
        ledger.add("world", "mean", "values", payload, payload, Wire(payload, payload, payload))

    meter = emulated_run.TrainingMeter(Cluster(2, 2), Alone(), [ledger])
    send(7)
    meter.start()
    send(100)
    with meter.paused():
        send(5000)
    send(30)
    meter.stop()
    total = meter.total()
    assert total.ledger_bytes == [130, 130]
    assert total.interface_bytes == [130 + 2 * 66] * 2
