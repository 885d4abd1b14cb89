"""Runs the commands `tawa` of the pages in forks of one process that has imported Tawa and Triton already.

    a page's shell    .bin/tawa verify …    sends its arguments, folder, variables and open files through a socket
    the server        forks a process that runs the command with them, and answers with its exit status

Imports take most of the time of a command. The command as a process of its own has tests in `tests/cli`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import pkgutil
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.back_end import keep_back_end, triton_key

_CLIENT = """\
#!{python} -IS
import array, json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    server.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    server.sendall(json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.makefile().read() or 1))
"""


def client(environment: dict[str, str]) -> str:
    """The text of a program that stands for `tawa`. environment: of the server; each command brings its own."""
    _, address = _started(tuple(sorted(environment.items())))
    return _CLIENT.format(python=sys.executable, address=address)


@functools.cache
def _started(environment: tuple[tuple[str, str], ...]) -> tuple[subprocess.Popen[bytes], str]:
    """The server, which ends when this process does, and the address of its socket."""
    address = str(Path(tempfile.mkdtemp(prefix="tawa-pages-")) / "socket")
    command = [sys.executable, "-m", __name__, address]
    server = subprocess.Popen(command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None and server.stdout.read(1), "the server of commands did not start"
    return server, address


def _import_all() -> None:
    """Imports what commands import, and prepares what they compute once."""
    import tawa

    keep_back_end()
    triton_key()
    for module in pkgutil.walk_packages(tawa.__path__, "tawa."):
        with contextlib.suppress(ImportError):  # of packages that are optional
            importlib.import_module(module.name)


def _connections(address: str) -> Iterator[socket.socket]:
    """The connections of clients, until standard input closes."""
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as either:
        listening.bind(address)
        listening.listen()
        os.write(1, b"x")
        either.register(listening, selectors.EVENT_READ)
        either.register(0, selectors.EVENT_READ)
        while all(key.fileobj is listening for key, _ in either.select()):
            with listening.accept()[0] as connection:
                yield connection
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _run(connection: socket.socket) -> None:
    """Runs a command in a fork of this process, which is one of the server, and says how it ended."""
    _, files, *_ = socket.recv_fds(connection, 1, 3)
    arguments, folder, variables = json.loads(connection.makefile().read())
    command = os.fork()
    if command:
        for file in files:
            os.close(file)
        connection.sendall(str(os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])).encode())
        os._exit(0)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(file, mode) for file, mode in enumerate("rww"))
    sys.stderr.reconfigure(line_buffering=True)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv, sys.path[0] = arguments, str(Path(arguments[0]).parent)
    from tawa.cli.main import main

    sys.exit(main())


def serve(address: str) -> None:
    """Serves the clients of one test process."""
    _import_all()
    for connection in _connections(address):
        if os.fork() == 0:
            _run(connection)
    shutil.rmtree(Path(address).parent, ignore_errors=True)


if __name__ == "__main__":
    serve(sys.argv[1])
