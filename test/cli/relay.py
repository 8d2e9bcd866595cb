"""A proxy in front of a real server."""
import re
import socket
import threading


class Relay:
    """A proxy of a server that replaces bytes in its replies by as many other bytes."""

    def __init__(self, server, pattern, change, name="relay"):
        self.path = f"{server.path}.{name}"
        self.uri = "unix://" + self.path
        self.server, self.pattern, self.change = server, pattern, change
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.server.path)
            except OSError:  # it does not run
                client.close()
                continue
            same = lambda text: text
            changed = lambda text: re.sub(self.pattern, self.change, text)
            for ends in ((client, server, same), (server, client, changed)):
                threading.Thread(target=self.pass_on, args=ends, daemon=True).start()

    @staticmethod
    def pass_on(source, sink, change):
        try:
            while text := source.recv(1 << 20):
                sink.sendall(change(text))
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # one of the two is gone

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
