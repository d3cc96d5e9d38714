"""Ports that are held from the moment they are chosen, so that nobody else can take them in between."""

import contextlib
import errno
import hashlib
import ipaddress
import socket

# Below the range from which Linux gives ports to whoever asks for any (32768 and up), above the well-known ones.
FIRST_PORT, PORTS = 20000, 12000
DRAWS = 24


def hold_port(host: str | None = None, port: int = 0) -> socket.socket:
    """A socket that listens on `port` (0: any free one) of the interfaces by which `host` is reached.

    host: a name or address of this machine. A loopback address: that interface alone, so nobody from outside can
    connect. None: 127.0.0.1.
    Raises ConnectionError, saying so, when another process holds the port or the name is unknown.
    """
    address = resolve(host or "127.0.0.1")
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    every = "::" if address.version == 6 else "0.0.0.0"
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections of an earlier run that are still winding down shall not keep the port; a listener does.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((str(address) if address.is_loopback else every, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise ConnectionError(
            f"port {port} of this machine is held by another process. Choose another master_port, or leave it out: "
            "then a free one is drawn from the launch id"
        ) from error
    return listener


def resolve(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address of a name, IPv4 where there is one. ConnectionError if it is unknown.

    An address is not looked up: that takes a descriptor, and may take a name server's time. Any other OSError is want
    of something in this process, and says nothing about the host.
    """
    with contextlib.suppress(ValueError):
        if "%" not in host:  # of one with an interface only the address is wanted
            return ipaddress.ip_address(host)
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:  # a label of more than 63 letters is no name at all
        raise ConnectionError(f"this machine knows no host {host!r}: {error}") from error
    addresses = sorted({str(entry[4][0]).partition("%")[0] for entry in found}, key=lambda text: ":" in text)
    return ipaddress.ip_address(addresses[0])


def drawn_ports(launch_key: str) -> list[int]:
    """Where the ranks of a launch look for each other, in this order: the same for all of them, other for others."""
    digests = (hashlib.sha256(f"{launch_key}/{i}".encode()).digest() for i in range(DRAWS))
    return [FIRST_PORT + int.from_bytes(digest[:4], "big") % PORTS for digest in digests]


def own_addresses() -> list[str]:
    """Addresses by which other machines may reach this one, best first."""
    found = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; the kernel only picks the interface
        found.append(str(probe.getsockname()[0]))
    with contextlib.suppress(OSError):  # a machine may not know its own name
        found += [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return list(dict.fromkeys([*found, "127.0.0.1"]))
