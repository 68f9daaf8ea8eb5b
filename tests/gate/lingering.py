"""A socket that is slow to close."""

import contextlib
import socket
import struct
import threading


class Lingering:
    """A socket whose last close waits until `end`."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.socket = socket.create_connection(listener.getsockname())
            self._other, _ = listener.accept()
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.socket.send(bytes(1 << 16))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1000))

    def send(self, connection: socket.socket, data: bytes, times: int = 1) -> None:
        """Sends it along, and keeps no descriptor of it.

        Where the other side has closed it already, the last close is this one, which nobody is to wait for.
        """
        socket.send_fds(connection, [data], [self.socket.fileno()] * times)
        threading.Thread(target=self.socket.close, daemon=True).start()

    def end(self) -> None:
        self._other.close()
