"""SSH sessions: pinned keys, quoting, bounded waits, one-line errors."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import socket
import tarfile
from pathlib import Path

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.keys import new_key_pair
from kraftwreck.harness.remote.agent import Agent, clock_offset
from kraftwreck.harness.remote.session import Remote, RemoteError, on_all, parse_host_key, unpack


def refused(host: Host) -> str:
    with pytest.raises(RemoteError) as caught:
        Remote(host).run(["true"])
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.cluster
class TestAgainstSshd:
    def test_a_wrong_host_key_is_refused_and_named(self, five: list[Host]) -> None:
        message = refused(dataclasses.replace(five[0], host_key=five[1].host_key))
        assert message.startswith("n1: SSH to root@10.77.")
        assert "is not the pinned ssh-ed25519 SHA256:" in message

    def test_an_unknown_user_key_is_refused_and_named(
        self, five: list[Host], tmp_path: Path
    ) -> None:
        key = tmp_path / "other"
        key.write_text(new_key_pair()[0])
        assert f"refused with {key}" in refused(dataclasses.replace(five[0], key=key))

    def test_a_closed_port_is_one_line(self, five: list[Host]) -> None:
        message = refused(dataclasses.replace(five[0], port=2))
        assert message.endswith(":2: Connection refused")

    def test_a_missing_key_file_is_one_line(self, five: list[Host]) -> None:
        missing = Path("/nonexistent/key")
        assert "/nonexistent/key" in refused(dataclasses.replace(five[0], key=missing))

    def test_arguments_arrive_as_they_are(self, remotes: dict[str, Remote]) -> None:
        odd = ["a b", "$HOME", "'", '"', ";reboot", "*", "", "ü\n"]
        result = remotes["n1"].run(["printf", "%s|", *odd])
        assert result.stdout.decode() == "".join(f"{word}|" for word in odd)

    def test_output_error_status_and_input_are_kept_apart(self, remotes: dict[str, Remote]) -> None:
        result = remotes["n1"].run(
            ["sh", "-c", "cat; echo bad >&2; exit 3"], stdin=b"in", check=False
        )
        assert (result.stdout, result.stderr, result.status) == (b"in", b"bad\n", 3)

    def test_much_input_and_output_at_once_does_not_hang(self, remotes: dict[str, Remote]) -> None:
        data = bytes(range(256)) * (4 << 12)
        assert remotes["n1"].run(["cat"], stdin=data).stdout == data

    def test_a_failing_command_is_one_line_with_host_command_and_reason(
        self, remotes: dict[str, Remote]
    ) -> None:
        with pytest.raises(RemoteError, match=r"^n2: `cat /nosuch` gave status 1: cat: /nosuch"):
            remotes["n2"].run(["cat", "/nosuch"])

    def test_a_command_that_hangs_is_given_up(self, remotes: dict[str, Remote]) -> None:
        with pytest.raises(RemoteError, match=r"^n2: `sleep 60` gave no result in 0.3 s$"):
            remotes["n2"].run(["sleep", "60"], timeout_s=0.3)

    def test_a_command_that_never_stops_talking_is_given_up(
        self, remotes: dict[str, Remote]
    ) -> None:
        with pytest.raises(RemoteError, match=r"gave no result in 0.3 s"):
            remotes["n2"].run(["sh", "-c", "while :; do echo x; done"], timeout_s=0.3)

    def test_it_reconnects_after_the_connection_was_cut(self, five: list[Host]) -> None:
        remote = Remote(five[0])
        transport = remote.connect().get_transport()
        assert transport is not None
        assert isinstance(transport.sock, socket.socket)
        transport.sock.shutdown(socket.SHUT_RDWR)
        assert remote.run(["hostname"]).text == "n1"
        remote.close()

    def test_the_session_does_not_wait_for_delayed_acknowledgements(self, five: list[Host]) -> None:
        remote = Remote(five[0])
        transport = remote.connect().get_transport()
        assert transport is not None
        assert isinstance(transport.sock, socket.socket)
        assert transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        remote.close()

    def test_files_and_trees_come_and_go(self, remotes: dict[str, Remote], tmp_path: Path) -> None:
        remote = remotes["n4"]
        remote.run(["mkdir", "-p", "/srv/tree/below"])
        remote.put(b"\0one", "/srv/tree/one", mode=0o600)
        remote.put(b"two", "/srv/tree/below/two")
        remote.run(["ln", "-s", "/etc/passwd", "/srv/tree/link"])
        assert remote.get("/srv/tree/one") == b"\0one"
        assert remote.run(["stat", "-c", "%a", "/srv/tree/one"]).text == "600"
        assert remote.get_tree("/srv/tree", tmp_path) == 2
        assert (tmp_path / "below/two").read_bytes() == b"two"
        assert not (tmp_path / "link").exists()

    def test_a_missing_tree_is_one_line(self, remotes: dict[str, Remote], tmp_path: Path) -> None:
        with pytest.raises(RemoteError, match=r"^n4: `tar .*could not be read: .*nosuch"):
            remotes["n4"].get_tree("/nosuch", tmp_path)

    def test_fabric_works_over_the_pinned_session(self, five: list[Host]) -> None:
        remote = Remote(five[2])
        connection = remote.fabric()
        assert connection.client is remote.connect()
        assert connection.run("hostname", hide=True, in_stream=False).stdout == "n3\n"
        remote.close()

    def test_fabric_cannot_get_around_the_pin(self, five: list[Host]) -> None:
        with pytest.raises(RemoteError, match="is not the pinned"):
            Remote(dataclasses.replace(five[2], host_key=five[0].host_key)).fabric()

    def test_the_clock_offset_is_nil_on_one_kernel(self, remotes: dict[str, Remote]) -> None:
        assert abs(clock_offset(remotes["n1"])) < 20_000

    def test_the_agent_comes_back_after_it_was_killed(self, five: list[Host]) -> None:
        remote = Remote(five[0])
        agent = Agent(remote)
        first = agent.ask("hello")["pid"]
        remote.run(["kill", "-KILL", str(first)])
        # Noticed already, or by a question that is lost: it is not asked again by itself.
        with contextlib.suppress(RemoteError):
            agent.ask("hello")
        assert agent.ask("hello")["pid"] != first
        agent.close()
        remote.close()

    def test_the_agent_refuses_in_one_line(self, remotes: dict[str, Remote]) -> None:
        agent = Agent(remotes["n1"])
        with pytest.raises(RemoteError, match=r"^n1: nonsense: "):
            agent.ask("nonsense")
        agent.close()


def test_on_all_keeps_the_order_and_raises_what_failed() -> None:
    assert list(on_all(["b", "a"], str.upper).items()) == [("b", "B"), ("a", "A")]
    done: list[str] = []

    def work(name: str) -> None:
        if name == "bad":
            raise RemoteError(name, "broken")
        done.append(name)

    with pytest.raises(RemoteError, match=r"^bad: broken$"):
        on_all(["bad", "good"], work)
    assert done == ["good"]
    with pytest.raises(RemoteError, match=r"^x: broken; y: broken$"):
        on_all(["x", "y"], fail)


def fail(name: str) -> None:
    raise RemoteError(name, "broken")


@pytest.mark.parametrize("line", ["", "ssh-ed25519", "ssh-ed25519 !!!", "nonsense AAAA"])
def test_malformed_host_keys_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not a host key"):
        parse_host_key(line)


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside"])
def test_an_archive_cannot_write_outside_its_target(name: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    buffer.seek(0)
    with pytest.raises(tarfile.TarError, match="leads outside"):
        unpack(buffer, tmp_path / "target")
    assert not (tmp_path / "outside").exists()
