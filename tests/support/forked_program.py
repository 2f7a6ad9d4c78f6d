"""`outlast` and `python` for shells: requests the program from the fork server, and ends with its exit code or
signal.

Run by an isolated interpreter with few imports; `commands.programs` makes a script of it.
"""

import _socket
import array
import json
import os
import signal
import sys

arguments = sys.argv[1:] if os.path.basename(sys.argv[0]) == "python" else ["-m", "outlast", *sys.argv[1:]]
number_of_server = os.environ.pop("OUTLAST_FORK_SERVER", "")
if not number_of_server or not (arguments[:2] == ["-m", "outlast"] or arguments[0].endswith(".py")):
    os.execv(sys.executable, [sys.executable, *arguments])
server = _socket.socket(fileno=int(number_of_server))
ours, its = _socket.socketpair()
alive, lifeline = os.pipe()  # the server kills the program when this process dies
descriptors = array.array("i", [0, 1, 2, its.fileno(), alive])
server.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
its.close()
os.close(alive)
request = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ), "session": False}
ours.sendall(json.dumps(request).encode() + b"\n")


def number() -> int:
    line = b""
    while not line.endswith(b"\n"):
        line += ours.recv(1)
    return int(line)


pid = number()
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, lambda signum, _: os.kill(pid, signum))
code = number()
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
