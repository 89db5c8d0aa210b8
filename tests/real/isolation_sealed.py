"""A run of a real engine, sealed off: every name that is looked up, every address, every file that is written is seen.

usage: unshare --net --mount --pid --fork --mount-proc python isolation_sealed.py FOLDER < JSON

FOLDER is an empty one; the JSON holds `engine` (`codex` or `claude`), `options` of the provider, `auth` (what lies in
the home that the options pin), `mutant` (a fault of the engine's kit, and its argument) and `seconds` that the model's
command takes.  Says one JSON object: what was seen, or `cannot` with the reason.

- The network is the loopback device alone, and every address of the world is its own: whatever is contacted arrives,
  and is seen by a packet socket.  Each name has the address 192.0.2.7, and there is a TLS server in front of the
  scripted one.
- The root is an overlay, whose upper layer then holds exactly the files that were written, anywhere.
"""

from __future__ import annotations

import ctypes
import glob
import importlib
import json
import os
import shutil
import socket
import ssl
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

NAMED: Final = "192.0.2.7"
BASE: Final = Path("/tmp/sealed")
SYS_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
MNT_DETACH: Final = 2


def must(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)


# --- the file system --------------------------------------------------------------------------------------------------


class Layer:
    """An overlay as the root of this process; its upper layer."""

    def __init__(self, folder: Path) -> None:
        must("mount", "--make-rprivate", "/")
        must("mount", "-t", "tmpfs", "sealed", str(folder))
        upper, work, root = (folder / name for name in ("upper", "work", "root"))
        for path in (upper, work, root):
            path.mkdir()
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        must("mount", "-t", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", "overlay", str(root))
        for place in sorted(mounts):
            ours = any(f"{place}/".startswith(f"{known}/") for known in ("/proc", folder))
            if place != "/" and not ours and (root / place[1:]).exists():
                must("mount", "--bind", place, str(root / place[1:]))
        must("mount", "-t", "proc", "proc", str(root / "proc"))
        self._upper = os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
        os.chdir(root)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b".") or libc.umount2(b".", MNT_DETACH):
            raise OSError(ctypes.get_errno(), "pivot_root")
        os.chdir("/")

    def written(self) -> dict[str, tuple[int, int]]:
        """What was made, changed or removed, with what tells one state of it from another; empty folders end in `/`.

        But for what Python compiled: the harness is a Python, whose modules may be new.
        """
        found: dict[str, tuple[int, int]] = {}
        for folder, folders, names, descriptor in os.fwalk(".", dir_fd=self._upper):
            if not folders and not names:
                found[f"{folder[1:]}/"] = (0, 0)
            for name in names:
                with suppress(FileNotFoundError):  # it came and went
                    about = os.lstat(name, dir_fd=descriptor)
                    removed = stat.S_ISCHR(about.st_mode)
                    found[os.path.join(folder, name)[1:]] = (-1 if removed else about.st_size, about.st_mtime_ns)
        return {path: state for path, state in found.items() if "/__pycache__/" not in path}

    def holding(self, word: str) -> list[str]:
        """The files that were written and hold a word, and what in `/proc` shows it of other processes."""
        paths = [path for path in self.written() if os.path.isfile(path) and not os.path.islink(path)]
        own = (f"/proc/{os.getpid()}/", "/proc/self/", "/proc/thread-self/")
        shown = [path for name in ("environ", "cmdline") for path in glob.glob(f"/proc/*/{name}")]
        paths += [path for path in shown if not path.startswith(own)]
        found: list[str] = []
        for path in paths:
            with suppress(OSError):  # it came and went
                found += [path] * (word.encode() in Path(path).read_bytes())
        return found


# --- the network ------------------------------------------------------------------------------------------------------


class Wire(threading.Thread):
    """All that goes over the loopback device."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        for argv in (
            ["ip", "link", "set", "lo", "up"],
            ["ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo"],
        ):
            must(*argv)
        subprocess.run(["ip", "-6", "route", "add", "local", "::/0", "dev", "lo"], check=False, capture_output=True)
        self._line = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self._line.bind(("lo", 3))
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        self._line.settimeout(0.3)
        self._over = threading.Event()
        self.names: set[str] = set()
        self.contacted: set[str] = set()

    def run(self) -> None:
        while True:
            try:
                packet = self._line.recv(65536)
            except TimeoutError:
                if self._over.is_set():
                    return
                continue
            self._look(packet)

    def end(self) -> None:
        """When all that is on its way was seen."""
        self._over.set()
        self.join()

    def _look(self, packet: bytes) -> None:
        if packet[0] >> 4 == 4:
            size, protocol, family, to = (packet[0] & 15) * 4, packet[9], socket.AF_INET, packet[16:20]
        else:
            size, protocol, family, to = 40, packet[6], socket.AF_INET6, packet[24:40]
        segment, address = packet[size:], socket.inet_ntop(family, to)
        if protocol not in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
            if protocol not in (socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6):
                self.contacted.add(f"protocol {protocol} {address}")
            return
        source, port = struct.unpack_from("!HH", segment)
        if protocol == socket.IPPROTO_UDP:
            if port == 53:
                self.names.add(question(segment[8:])[0])
            elif source != 53:
                self.contacted.add(f"udp {address}:{port}")
        elif segment[13] & 0x12 == 0x02:  # SYN and no ACK
            self.contacted.add(f"{address}:{port}")


def question(message: bytes) -> tuple[str, int]:
    """The name that is asked for, and where the question ends."""
    labels, at = list[str](), 12
    while size := message[at]:
        labels.append(message[at + 1 : at + 1 + size].decode("ascii", "replace"))
        at += 1 + size
    return ".".join(labels).lower(), at + 5


def serve_names() -> None:
    """Every name has one address, and no other kind of entry."""
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.bind(("127.0.0.1", 53))
    while True:
        message, client = line.recvfrom(4096)
        _, end = question(message)
        wanted = message[end - 4 : end - 2] == b"\0\1"
        head = message[:2] + b"\x81\x80\0\1" + (b"\0\1" if wanted else b"\0\0") + b"\0\0\0\0"
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(NAMED) if wanted else b""
        line.sendto(head + message[12:end] + answer, client)


def certify(folder: Path) -> None:
    """`certificate` and `key` for the hosts of the vendors, by an `authority` of our own."""
    new = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    authority, signer = str(folder / "authority"), str(folder / "signer")
    must(*new, "-keyout", signer, "-out", authority, "-subj", "/CN=sealed authority")
    own = ["-subj", "/CN=sealed", "-addext", "subjectAltName=DNS:api.openai.com,DNS:chatgpt.com,DNS:api.anthropic.com"]
    own += ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", authority, "-CAkey", signer]
    must(*new, "-keyout", str(folder / "key"), "-out", str(folder / "certificate"), *own)


def serve_tls(certificate: Path, key: Path, port: int) -> None:
    """In front of the scripted server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("0.0.0.0", 443))
    while True:
        line, _ = listener.accept()
        threading.Thread(target=relay, args=(context, line, port), daemon=True).start()


def relay(context: ssl.SSLContext, line: socket.socket, port: int) -> None:
    try:
        secured = context.wrap_socket(line, server_side=True)
    except OSError:
        return
    behind = socket.create_connection(("127.0.0.1", port))
    threading.Thread(target=copy, args=(secured, behind), daemon=True).start()
    copy(behind, secured)


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for line in (source, target):
        try:
            line.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue


def in_background(target: Callable[..., None], *args: object) -> None:
    threading.Thread(target=target, args=args, daemon=True).start()


# --- the run ----------------------------------------------------------------------------------------------------------


def surroundings(order: dict[str, Any]) -> Path:
    """A person who has nothing, and a folder to work in."""
    shutil.rmtree(BASE, ignore_errors=True)
    (BASE / "person").mkdir(parents=True)
    (BASE / "work").mkdir()
    (BASE / "harness").mkdir()
    if "auth" in order:
        home = Path(order["options"]["home"])
        home.mkdir(parents=True)
        (home / "auth.json").write_text(json.dumps(order["auth"]))
    resolver = Path("/etc/resolv.conf")
    resolver.unlink(missing_ok=True)
    resolver.write_text("nameserver 127.0.0.1\n")
    certify(BASE / "harness")
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    os.environ.clear()
    authority = str(BASE / "harness/authority")
    os.environ.update(environment, HOME=str(BASE / "person"), SSL_CERT_FILE=authority, NODE_EXTRA_CA_CERTS=authority)
    return BASE / "work"


def go(order: dict[str, Any], layer: Layer, wire: Wire) -> dict[str, Any]:
    import anyio
    import pytest

    engine: Any = importlib.import_module(f"isolation_{order['engine']}")
    work = surroundings(order)
    during, keys = dict[str, tuple[int, int]](), list[str]()

    def turn(_: dict[str, Any], number: int) -> Any:
        if number == 1:  # what an engine does beside its work, it does in its first seconds
            return [engine.command(f"env > /dev/null; sleep {order['seconds']}; echo done")]
        during.update(layer.written())
        keys.extend(layer.holding(order["options"].get("api_key", "no key")))
        return "done"

    with engine.Server(turn) as api, pytest.MonkeyPatch.context() as patch:
        port = int(api.base_url.split(":")[2].partition("/")[0])
        in_background(serve_names)
        in_background(serve_tls, BASE / "harness/certificate", BASE / "harness/key", port)
        options: dict[str, Any] = {
            key: api.base_url if value == "SCRIPTED" else value for key, value in order["options"].items()
        }
        if "mutant" in order:
            name, what = order["mutant"]
            getattr(engine, name)(patch, what)
        before = layer.written()
        wire.start()
        found = anyio.run(lambda: engine.told(engine.Provider(**options), "work", work, permission="allow"))
        wire.end()
        after = layer.written()
        return {
            "result": found.result.stop_reason,
            "why": repr(found.result.failure),
            "names": sorted(wire.names),
            "contacted": sorted(address.replace(str(port), "SCRIPTED") for address in wire.contacted),
            "asked": sorted({request.path for request in [*api.requests, *api.others]}),
            "authorization": sorted({r.headers.get(engine.CREDENTIAL, "") for r in [*api.requests, *api.others]}),
            "keys": keys,
            "during": sorted(path for path, state in during.items() if before.get(path) != state),
            "after": sorted(path for path, state in after.items() if before.get(path) != state),
        }


def main() -> dict[str, Any]:
    folder, order = Path(sys.argv[1]), json.load(sys.stdin)
    try:
        layer, wire = Layer(folder), Wire()
    except (OSError, subprocess.CalledProcessError) as error:
        return {"cannot": f"{error} {getattr(error, 'stderr', '')}"}
    return go(order, layer, wire)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    print(json.dumps(main()))
