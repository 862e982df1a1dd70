"""HTTP/1.1 by hand, for what no well-behaved client sends."""

import json
import socket
import struct


class RawConnection:
    def __init__(self, port, timeout=60, receive_buffer=None):
        self.socket = socket.socket()
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def post(self, path, body, *headers, version="1.1"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"POST {path} HTTP/{version}", "Host: weft", f"Content-Length: {len(data)}", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def reset(self):
        """Closes with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def read_until(self, mark):
        while mark not in self.buffer:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError(f"the server closed after {self.buffer!r}")
            self.buffer += data
        head, self.buffer = self.buffer.split(mark, 1)
        return head

    def read_exactly(self, size):
        while len(self.buffer) < size:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError(f"the server closed after {self.buffer!r}")
            self.buffer += data
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def read_head(self):
        """The status and the headers, with names in lower case."""
        status, *lines = self.read_until(b"\r\n\r\n").decode().split("\r\n")
        return int(status.split(" ")[1]), {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}

    def read_response(self, has_body=True):
        status, headers = self.read_head()
        body = b""
        if "chunked" in headers.get("transfer-encoding", ""):
            while chunk := self.read_exactly(int(self.read_until(b"\r\n"), 16)):
                body += chunk
                assert self.read_exactly(2) == b"\r\n"
            assert self.read_exactly(2) == b"\r\n"
        elif has_body:
            body = self.read_exactly(int(headers.get("content-length", 0)))
        return status, headers, body

    def read_to_end(self):
        data, self.buffer = self.buffer, b""
        while more := self.socket.recv(65536):
            data += more
        return data
