"""A host behind ssh. The only user of paramiko; its exceptions end here."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import secrets
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko

from triage.errors import CommandTimeout, HostError, HostKeyError
from triage.hosts.files import FileOperations
from triage.hosts.known_hosts import KnownKey, fingerprint, judge_key, known_types, parse_known_hosts
from triage.hosts.local import open_proxy
from triage.hosts.script import BOOT, KILL_GROUP, Fence, encode_script, explain_sudo, reveal_argv
from triage.hosts.ssh_config import Endpoint, Target, join_configs, make_endpoint, parse_target, read_config_text
from triage.model import Command, CommandResult
from triage.redact import printable

# paramiko reports refused connections as tracebacks on stderr where logging has no handler
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False

_MAX_HOPS = 8
_KILL_SECONDS = 5.0


class SshHost(FileOperations):
    """Connects at the first command, and again before a later command where the connection was lost in between."""

    def __init__(self, name: str, ssh_config: Path | None = None, known_hosts: Path | None = None, timeout: float = 15.0) -> None:
        """`ssh_config` and `known_hosts` replace the user's and the system's files. `timeout` is for each stage, in seconds.

        Raises UsageError (not a host name), HostError (config that cannot be read).
        """
        self._target = parse_target(name)
        self._name = name
        self._known_hosts = known_hosts
        self._timeout = timeout
        self._home = Path.home()
        self._config = _load_config(ssh_config, self._home)
        self._transports: list[paramiko.Transport] = []
        self._end_proxy: Callable[[], None] | None = None
        self._user = ""

    @property
    def name(self) -> str:
        return self._name

    def connect(self) -> None:
        """Connect and log in, unless that is done. Raises HostError, HostKeyError."""
        if self._transports and self._transports[-1].is_active():
            return
        self.close()
        endpoint = self._endpoint(self._target)
        hops: list[Endpoint] = [endpoint]
        while hops[0].jumps:
            before = [self._endpoint(jump) for jump in hops[0].jumps]
            hops = before + hops
            if len(hops) > _MAX_HOPS:
                raise HostError(f"ProxyJump of {endpoint.name} needs more than {_MAX_HOPS} hops (a loop?)")
        try:
            for i, hop in enumerate(hops):
                with _translated(hop):
                    sock = self._open_socket(hop) if i == 0 else self._tunnel(hop)
                    transport = paramiko.Transport(sock)
                    self._transports.append(transport)
                    self._log_in(transport, hop)
        except BaseException:
            self.close()
            raise
        self._user = endpoint.user

    def run(self, command: Command) -> CommandResult:
        """Run it to its end. Raises HostError (unreachable, lost, no sudo), HostKeyError, CommandTimeout."""
        words = reveal_argv(command.argv)
        self.connect()
        marker = f"triage-{secrets.token_hex(16)}"
        script = encode_script(words, marker, command.root)
        status, out, err = self._execute(script + command.stdin, marker, command)
        if out.line is None:
            said = printable((out.noise + err.noise).decode("utf-8", "replace"))
            raise HostError(f"{self._name} accepts the login but runs no command" + (f"; it says: {said}" if said else ""))
        if status < 0:
            raise HostError(f"the connection to {self._name} was lost while a command ran", "its effect is not known; look again")
        if command.root and (error := explain_sudo(status, err.data, f"{self._user} on {self._name}")):
            raise error
        return CommandResult(status, out.data, err.data)

    def close(self) -> None:
        """End the connection and those of its jump hosts."""
        for transport in reversed(self._transports):
            with contextlib.suppress(OSError, EOFError):
                transport.close()
        self._transports = []
        if self._end_proxy:
            self._end_proxy()
            self._end_proxy = None

    # ------------------------------------------------------------ one command
    def _execute(self, feed: bytes, marker: str, command: Command) -> tuple[int, Fence, Fence]:
        deadline = time.monotonic() + command.timeout
        out, err = Fence(marker, command.max_output), Fence(marker, command.max_output)
        with self._translated_run():
            channel = self._transports[-1].open_session(timeout=min(self._timeout, command.timeout))
            channel.settimeout(self._timeout)
            channel.exec_command(BOOT)
        channel.settimeout(command.timeout)
        failed: list[HostError] = []
        writer = threading.Thread(target=_write_all, args=(channel, feed), daemon=True)
        reader = threading.Thread(target=_drain_stderr, args=(channel, err, failed), daemon=True)
        writer.start()
        reader.start()
        try:
            with self._translated_run():
                while True:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise TimeoutError
                    channel.settimeout(left)
                    data = channel.recv(1 << 18)
                    if not data:
                        break
                    out.feed(data)
                reader.join(max(0.0, deadline - time.monotonic()))
                if not channel.status_event.wait(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                status = channel.recv_exit_status()
        except TimeoutError as error:
            channel.close()
            self._kill(out.line, command.root)
            raise CommandTimeout(
                f"no end after {command.timeout:g} s on {self._name}: {printable(str(command.argv[0]))}"
            ) from error
        finally:
            channel.close()
        if failed:
            raise failed[0]
        return status, out, err

    def _kill(self, pid: str | None, root: bool) -> None:
        """Best effort: end the group of a command that outlived its time. A link that does not answer is given up."""
        transport = self._transports[-1]
        if pid and pid.isdigit():
            script = encode_script(["sh", "-c", KILL_GROUP, "sh", pid], "kill", root)
            with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
                channel = transport.open_session(timeout=_KILL_SECONDS)
                channel.settimeout(_KILL_SECONDS)
                channel.exec_command(BOOT)
                channel.sendall(script)
                channel.shutdown_write()
                if channel.status_event.wait(_KILL_SECONDS):
                    channel.close()
                    return
        self.close()

    @contextlib.contextmanager
    def _translated_run(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.close()
            raise HostError(f"the connection to {self._name} failed: {_words(error)}") from error

    # ------------------------------------------------------------ connecting
    def _endpoint(self, target: Target) -> Endpoint:
        try:
            options = self._config.lookup(target.host)
        except (paramiko.SSHException, ImportError, ValueError, KeyError) as error:
            raise HostError(f"the ssh config cannot be applied to {target.host}: {_words(error)}") from error
        return make_endpoint(target, options, self._home, getpass.getuser(), self._known_hosts, self._timeout)

    def _open_socket(self, hop: Endpoint) -> socket.socket:
        if hop.proxy_command:
            sock, self._end_proxy = open_proxy(hop.proxy_command)
            sock.settimeout(hop.timeout)
            return sock
        return socket.create_connection((hop.host, hop.port), hop.timeout)

    def _tunnel(self, hop: Endpoint) -> paramiko.Channel:
        return self._transports[-1].open_channel("direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=hop.timeout)

    def _log_in(self, transport: paramiko.Transport, hop: Endpoint) -> None:
        transport.banner_timeout = hop.timeout
        transport.handshake_timeout = hop.timeout
        transport.auth_timeout = hop.timeout
        transport.set_keepalive(20)
        keys = _read_known_hosts(hop.known_hosts)
        options = transport.get_security_options()
        # the type that known_hosts has is asked for first; the newer signatures carry an ssh-rsa key too
        wanted = [
            t for k in known_types(keys, hop.key_name) for t in (("rsa-sha2-512", "rsa-sha2-256") if k == "ssh-rsa" else (k,))
        ]
        offered = list(options.key_types)
        options.key_types = [t for t in wanted if t in offered] + [t for t in offered if t not in wanted]
        # paramiko's own time-outs come first and say more; this one returns in silence
        transport.start_client(timeout=3 * hop.timeout)
        if not transport.initial_kex_done:
            raise TimeoutError
        _check_key(hop, keys, transport.get_remote_server_key())
        _authenticate(transport, hop)


def _load_config(path: Path | None, home: Path) -> paramiko.SSHConfig:
    if path is not None:
        text = read_config_text(path, home)
    else:
        user, system = home / ".ssh" / "config", Path("/etc/ssh/ssh_config")
        text = join_configs(read_config_text(user, home), read_config_text(system, home))
    try:
        return paramiko.SSHConfig.from_text(text)
    except (paramiko.SSHException, ValueError) as error:
        raise HostError(f"the ssh config does not parse: {_words(error)}") from error


def _read_known_hosts(paths: tuple[str, ...]) -> tuple[KnownKey, ...]:
    keys: tuple[KnownKey, ...] = ()
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                keys += parse_known_hosts(stream.read(16 * 1024 * 1024))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise HostError(f"cannot read the known hosts in {path!a}: {error.strerror}") from error
    return keys


def _check_key(hop: Endpoint, keys: tuple[KnownKey, ...], shown: paramiko.PKey) -> None:
    """Raises HostKeyError unless exactly this key stands in known_hosts. No option of the config weakens it."""
    verdict = judge_key(keys, hop.key_name, shown.asbytes())
    what = f"{shown.get_name()} {fingerprint(shown.asbytes())}"
    where = hop.known_hosts[0]
    if verdict.verdict == "unknown":
        note = " (a host certificate is known for it, which triage cannot check)" if verdict.known else ""
        raise HostKeyError(
            f"the host key of {hop.name} is unknown{note}: {what}",
            f"compare the fingerprint with the host's own, accept it once by `ssh {hop.name}` (it goes to {where}), run again",
        )
    if verdict.verdict == "changed":
        known = ", ".join(f"{k.type} {fingerprint(k.blob)}" for k in verdict.known[:3])
        raise HostKeyError(
            f"the host key of {hop.name} has CHANGED: it shows {what}, known is {known}",
            "someone may be in between; only where the host was re-installed: "
            f"`ssh-keygen -f {shlex.quote(where)} -R {shlex.quote(hop.key_name)}`, then accept the new key by ssh",
        )
    if verdict.verdict == "revoked":
        raise HostKeyError(
            f"the host key of {hop.name} is REVOKED in the known hosts: {what}", "do not connect; ask who runs the host"
        )


def _authenticate(transport: paramiko.Transport, hop: Endpoint) -> None:
    """Key files of the config, then the agent's keys. Raises HostError that says what was tried."""
    tried: list[str] = []
    for name, key in _offers(hop, tried):
        try:
            missing = transport.auth_publickey(hop.user, key)
        except paramiko.BadAuthenticationType as error:
            raise HostError(
                f"{hop.name} takes no keys for {hop.user}, only: {printable(', '.join(error.allowed_types))}",
                "triage logs in by key only",
            ) from error
        except paramiko.AuthenticationException:
            tried.append(f"{name} (refused)")
            if not transport.is_active():
                break
            continue
        if not missing:
            return
        raise HostError(f"{hop.name} asks for more than a key: {printable(', '.join(missing))}", "triage logs in by key only")
    raise HostError(
        f"{hop.name} refuses the login of {hop.user}; tried: {printable('; '.join(tried), 400) or 'no key found'}",
        f"`ssh -o BatchMode=yes {hop.name} true` must work first (ssh-add for a key with a passphrase)",
    )


def _offers(hop: Endpoint, tried: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
    files: list[tuple[str, paramiko.PKey]] = []
    for path in hop.identity_files:
        try:
            files.append((path, paramiko.PKey.from_path(path)))
        except FileNotFoundError:
            if hop.explicit_identity:
                tried.append(f"{path} (no such file)")
        except (paramiko.SSHException, OSError, ValueError, TypeError) as error:
            locked = isinstance(error, paramiko.PasswordRequiredException) or "assw" in str(error)
            tried.append(f"{path} ({'needs a passphrase' if locked else 'cannot be read'})")
    yield from files
    if not hop.use_agent:
        return
    blobs = {_public_blob(path) for path in hop.identity_files}
    agent = paramiko.Agent()
    try:
        for key in agent.get_keys():
            if not hop.identities_only or key.asbytes() in blobs:
                yield "a key of the agent", key
    except paramiko.SSHException:
        tried.append("the agent (does not answer)")
    finally:
        agent.close()


def _public_blob(path: str) -> bytes | None:
    """The key in PATH.pub, which says which of the agent's keys belongs to a file that is locked."""
    try:
        with open(os.fspath(path) + ".pub", encoding="utf-8", errors="replace") as stream:
            found = parse_known_hosts(f"x {stream.read(65536)}")
    except OSError:
        return None
    return found[0].blob if found else None


@contextlib.contextmanager
def _translated(hop: Endpoint) -> Iterator[None]:
    """Errors of connecting to one hop, in words."""
    where = f"{hop.name} ({hop.host} port {hop.port})" if hop.name != hop.host or hop.port != 22 else hop.host
    try:
        yield
    except socket.gaierror as error:
        raise HostError(
            f"there is no host {hop.host}: {error.strerror}", "check the name, or add it to your ssh config"
        ) from error
    except TimeoutError as error:
        raise HostError(f"{where} does not answer within {hop.timeout:g} s") from error
    except paramiko.ssh_exception.IncompatiblePeer as error:
        raise HostError(
            f"{where} offers only algorithms that are not safe any more: {_words(error)}",
            "update the ssh server (SHA-1 signatures are gone)",
        ) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        if "protocol banner" in str(error):
            raise HostError(f"{where} takes the connection but does not say that it is an ssh server") from error
        raise HostError(f"cannot log in to {where}: {_words(error)}") from error


def _words(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return printable(str(text))


def _write_all(channel: paramiko.Channel, feed: bytes) -> None:
    """Send it all; a peer that stopped reading is told by the exit status or the time-out."""
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        channel.sendall(feed)
        channel.shutdown_write()


def _drain_stderr(channel: paramiko.Channel, fence: Fence, failed: list[HostError]) -> None:
    try:
        with contextlib.suppress(OSError, EOFError):
            while data := channel.recv_stderr(1 << 16):
                fence.feed(data)
    except HostError as error:
        failed.append(error)
        channel.close()
