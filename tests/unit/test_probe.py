"""The rate and the round trip to another host, over this one's loopback."""

import socket
import threading
from queue import Queue

import pytest

from thinwire.base.errors import UserError
from thinwire.simulation import probe
from thinwire.simulation.probe import Server, measure, serve

HERE = "127.0.0.1"


@pytest.fixture
def server():
    """A server that has begun to listen, and its thread."""
    told = Queue()
    thread = threading.Thread(target=serve, args=(0, told.put, HERE), daemon=True)
    thread.start()
    return told.get(timeout=10), thread


def test_each_direction_has_its_rate_and_the_server_ends_after_one_client(server, monkeypatch):
    monkeypatch.setattr(probe, "_ZEROS", memoryview(bytes(2**16)))
    address, thread = server
    # Who does not know the token is turned away, and the server waits on.
    with pytest.raises(UserError, match=r"does not answer as it should .*: copy the token"):
        measure(address._replace(token="0" * 16))
    found = measure(Server.of(str(address)))
    assert min(found.to_bits_per_second, found.from_bits_per_second) > 1e8
    assert 0 < found.round_trip_seconds < 0.5
    thread.join(timeout=10)
    assert not thread.is_alive()
    with pytest.raises(UserError, match=rf"nothing answers at {HERE}:{address.port}"):
        measure(address)


def test_a_rate_has_the_headers_of_frames():
    assert probe._bits(1448) == pytest.approx(8 * 1514)


@pytest.mark.parametrize(
    "text", ["", "host:1", "0123@host", f"{'0' * 16}@", f"{'0' * 16}@h:x", f"{'0' * 16}@h:65536"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UserError, match="is no server: give TOKEN@HOST:PORT"):
        Server.of(text)
    assert Server.of(f"{'0' * 16}@host") == ("0" * 16, "host", probe.PORT)


def test_a_port_that_is_taken_or_none_is_one_sentence(capsys):
    with socket.create_server(("", 0)) as taken:
        assert probe._main([str(taken.getsockname()[1])]) == 2
    assert probe._main(["http"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("nobody can listen on port")
    assert second.startswith("'http' is no port")


def test_a_server_that_nobody_asks_ends(monkeypatch):
    monkeypatch.setattr(probe, "_WAIT_SECONDS", 0.01)
    with pytest.raises(UserError, match="no client came within"):
        serve(0, lambda server: None, HERE)
