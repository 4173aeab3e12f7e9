"""Inventory files: both forms read alike, every mistake is one line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftwreck.harness.clusters.cluster import ClusterError, Host
from kraftwreck.harness.clusters.hosts import HostsCluster, format_inventory, load_inventory
from kraftwreck.harness.clusters.keys import new_key_pair
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.clusters.providers import choose_cluster
from kraftwreck.harness.clusters.vagrant import VagrantCluster

PIN = new_key_pair()[1]
OTHER_PIN = new_key_pair()[1]


def inventory(tmp_path: Path, text: str, name: str = "hosts") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def mistake(path: Path) -> str:
    with pytest.raises(ClusterError) as caught:
        load_inventory(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    assert caught.value.exit_code == 254
    return message.removeprefix(str(path)).strip()


def test_lines_and_toml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("a key")
    lines = inventory(
        tmp_path,
        f"""
        # two hosts
        n1 192.0.2.1 hostkey="{PIN}"
        n2 admin@192.0.2.2:2222 key=id hostkey='{OTHER_PIN}' become="sudo -n" # the second
        """,
    )
    toml = inventory(
        tmp_path,
        f"""
        [[hosts]]
        name = "n1"
        ip = "192.0.2.1"
        hostkey = "{PIN}"
        [[hosts]]
        name = "n2"
        ip = "192.0.2.2"
        user = "admin"
        port = 2222
        key = "id"
        hostkey = "{OTHER_PIN}"
        become = "sudo -n"
        """,
        "hosts.toml",
    )
    first = Host(name="n1", node_id=1, ip="192.0.2.1", host_key=PIN)
    second = Host(
        name="n2", node_id=2, ip="192.0.2.2", host_key=OTHER_PIN, port=2222, user="admin",
        key=tmp_path / "id", become="sudo -n",
    )  # fmt: skip
    assert load_inventory(lines) == load_inventory(toml) == [first, second]


def test_a_written_file_reads_back_unchanged(tmp_path: Path) -> None:
    key = tmp_path / 'odd "name"'
    key.write_text("a key")
    hosts = [
        Host(name="a", node_id=3, ip="192.0.2.1", host_key=PIN, key=key, become="sudo -n"),
        Host(name="b", node_id=1, ip="192.0.2.2", host_key=PIN, ssh_address="127.0.0.1", port=22),
    ]
    assert load_inventory(inventory(tmp_path, format_inventory(hosts), "x.toml")) == hosts


def test_a_host_without_a_pinned_key_gets_a_hint(tmp_path: Path) -> None:
    path = inventory(tmp_path, f'n1 192.0.2.1 hostkey="{PIN}"\nn2 root@192.0.2.2:2200\n')
    assert mistake(path) == (
        "line 2: n2 has no pinned host key; get it with `ssh-keyscan -t ed25519 -p 2200 "
        '192.0.2.2`, compare it with the host\'s own, and add hostkey="ssh-ed25519 AAAA..."'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'no hosts in it; a line is: n1 user@192.0.2.11 hostkey="..."'),
        ("n1\n", "line 1: a line begins with: NAME [USER@]ADDRESS[:PORT]"),
        ("\nn1 a@b@c\n", "line 2: a line begins with: NAME [USER@]ADDRESS[:PORT]"),
        ("n1 192.0.2.1 hostkey='x\n", "line 1: cannot be read: no closing quotation"),
        ("n1 192.0.2.1 hostkey\n", "line 1: 'hostkey' is not of the form key=value"),
        ("n1 192.0.2.1 hostkey=x\n", "line 1: n1: 'x' is not a host key"),
        ("n1 192.0.2.1 colour=red\n", "line 1: 'colour' is unknown; known fields: become,"),
        ("n_1 192.0.2.1\n", "line 1: 'n_1' is not a host name"),
        ("n1 192.0.2.1:70000\n", "line 1: port 70000 is not between 1 and 65535"),
        ("n1 192.0.2.1 node_id=x\n", "line 1: node_id 'x' is not a number"),
        ("n1 192.0.2.1 key=/no/key hostkey=PIN\n", "line 1: n1: key file /no/key does not exist"),
        ("n1 nosuch.invalid hostkey=PIN\n", "line 1: nosuch.invalid has no IPv4 address"),
        (
            "n1 192.0.2.1 hostkey=PIN\nn1 192.0.2.2 hostkey=PIN\n",
            "line 2: name n1 is also given in line 1",
        ),
        (
            "n1 192.0.2.1 hostkey=PIN\nn2 192.0.2.1 hostkey=PIN\n",
            "line 2: ip 192.0.2.1 is also given",
        ),
        (
            "n1 192.0.2.1 node_id=2 hostkey=PIN\nn2 192.0.2.2 hostkey=PIN\n",
            "line 2: node_id 2 is also given",
        ),
    ],
)
def test_a_mistake_in_a_line_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = inventory(tmp_path, text.replace("PIN", f'"{PIN}"'))
    assert mistake(path).removeprefix(": ").startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts = 3", ": only [[hosts]] tables are allowed"),
        ("other = 3", ": only [[hosts]] tables are allowed"),
        ("[[hosts]", ": not TOML: "),
        ("[[hosts]]\nip = '192.0.2.1'", "host 1: name is missing"),
        ("[[hosts]]\nname = 'n1'\nport = true", "host 1: port must be a number"),
        ("[[hosts]]\nname = 1", "host 1: name must be a text"),
    ],
)
def test_a_mistake_in_toml_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = inventory(tmp_path, text, "hosts.toml")
    assert mistake(path).removeprefix(str(path)).startswith(said.strip())


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    assert mistake(tmp_path / "nosuch") == ": cannot be read: No such file or directory"
    assert mistake(tmp_path) == ": cannot be read: Is a directory"
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert mistake(binary) == ": cannot be read: not a text file"


def test_fewer_hosts_than_asked_for_is_one_line(tmp_path: Path) -> None:
    path = inventory(tmp_path, f'n1 192.0.2.1 hostkey="{PIN}"\n')
    with pytest.raises(
        ClusterError, match=r"5 nodes requested, but it has 1 hosts: use --nodes 1$"
    ):
        HostsCluster(path, 5)


def test_names_of_providers(tmp_path: Path) -> None:
    path = inventory(tmp_path, f'n1 192.0.2.1 hostkey="{PIN}"\nn2 192.0.2.2 hostkey="{PIN}"\n')
    assert isinstance(choose_cluster("netns"), NetnsCluster)
    assert isinstance(choose_cluster("vagrant", 3), VagrantCluster)
    chosen = choose_cluster(f"hosts:{path}", 1)
    assert isinstance(chosen, HostsCluster)
    assert [host.name for host in chosen.hosts] == ["n1"]
    for word in ("", "sim", "hosts", "hosts:", "docker"):
        with pytest.raises(ClusterError, match=r"is unknown; use netns, vagrant, hosts:FILE"):
            choose_cluster(word)


@pytest.mark.cluster
def test_hosts_that_do_not_answer_are_all_named(five: list[Host], tmp_path: Path) -> None:
    import dataclasses

    hosts = [
        five[0],
        dataclasses.replace(five[1], port=2),
        dataclasses.replace(five[2], host_key=five[3].host_key),
    ]
    path = inventory(tmp_path, format_inventory(hosts), "hosts.toml")
    with pytest.raises(ClusterError) as caught:
        HostsCluster(path).up()
    message = str(caught.value)
    assert message.startswith("n2: SSH to root@")
    assert "Connection refused; n3: SSH to root@" in message
    assert "is not the pinned" in message
    assert "n1:" not in message


@pytest.mark.cluster
def test_an_ordinary_user_becomes_root(five: list[Host], tmp_path: Path) -> None:
    """``become`` is put before every command; here it is env(1), which changes nothing."""
    import dataclasses

    from kraftwreck.harness.remote.agent import Agent
    from kraftwreck.harness.remote.session import Remote

    remote = Remote(dataclasses.replace(five[0], become="env BECAME=1"))
    assert remote.run(["sh", "-c", "echo $BECAME"]).text == "1"
    assert Agent(remote).ask("hello")["privileged"] is True
    remote.close()
