"""The protocol below the API."""

import json

import pytest

from raw_http import RawConnection

SHORT = {"prompt": "the", "max_tokens": 2, "temperature": 0}
STREAM = {**SHORT, "stream": True}


@pytest.fixture
def raw(tiny):
    with RawConnection(tiny.port) as connection:
        yield connection


def closed(connection):
    return connection.read_to_end() == b""


def test_a_connection_carries_many_requests(raw):
    for body in (SHORT, STREAM, SHORT, {"prompt": 1}, STREAM):
        raw.post("/v1/completions", body)
        status, headers, _ = raw.read_response()
        assert status == (400 if body["prompt"] == 1 else 200)
        assert headers["connection"] == "keep-alive"
    raw.post("/v1/completions", SHORT, "Connection: close")
    _, headers, _ = raw.read_response()
    assert headers["connection"] == "close"
    assert closed(raw)


def test_pipelined_requests_are_answered_in_order(raw):
    long = {**STREAM, "max_tokens": 200, "ignore_eos": True, "return_token_ids": True}
    for _ in range(3):
        raw.post("/v1/completions", long)
    raw.send(b"GET /version HTTP/1.1\r\nHost: weft\r\n\r\n")
    for _ in range(3):
        status, _, body = raw.read_response()
        assert status == 200
        assert body.endswith(b"data: [DONE]\n\n")  # what came behind it did not cancel it
        assert b'"finish_reason":"length"' in body
    status, _, body = raw.read_response()
    assert status == 200 and b"version" in body


def test_a_stream_has_the_form_of_server_sent_events(raw):
    raw.post("/v1/completions", STREAM)
    status, headers, body = raw.read_response()
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-cache"
    *events, done, rest = body.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    for event in events:
        assert event.startswith("data: ")
        data = json.loads(event[len("data: ") :])
        assert data["id"] == headers["x-request-id"]


def test_http_1_0_gets_no_chunks(raw):
    raw.post("/v1/completions", STREAM, version="1.0")
    status, headers = raw.read_head()
    assert status == 200
    assert "transfer-encoding" not in headers
    assert raw.read_to_end().endswith(b"data: [DONE]\n\n")


def test_head_has_no_body(raw):
    for path in ("/health", "/v1/models", "/metrics", "/nowhere"):
        raw.send(f"HEAD {path} HTTP/1.1\r\nHost: weft\r\n\r\n".encode())
        status, headers, _ = raw.read_response(has_body=False)
        assert status == (404 if path == "/nowhere" else 200)
        assert int(headers["content-length"]) > 0


def test_options_name_the_methods(raw):
    raw.send(b"OPTIONS /v1/completions HTTP/1.1\r\nHost: weft\r\n\r\n")
    status, headers, _ = raw.read_response(has_body=False)
    assert (status, headers["allow"]) == (204, "POST, OPTIONS")


def test_a_chunked_body_is_read(raw):
    body = json.dumps(SHORT).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: weft\r\nTransfer-Encoding: chunked\r\n\r\n"
    raw.send(head + b"".join(b"1\r\n" + bytes([c]) + b"\r\n" for c in body) + b"0\r\n\r\n")
    assert raw.read_response()[0] == 200


def test_a_body_may_wait_for_permission(raw):
    body = json.dumps(SHORT).encode()
    raw.send(
        b"POST /v1/completions HTTP/1.1\r\nHost: weft\r\nExpect: 100-continue\r\n"
        + f"Content-Length: {len(body)}\r\n\r\n".encode()
    )
    assert raw.read_head()[0] == 100
    raw.send(body)
    assert raw.read_response()[0] == 200


@pytest.mark.parametrize(
    "data, status",
    [
        (b"\r\n\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET /health HTTP/9.9\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nbroken header\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"GET /health HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n", 413),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, 400),
    ],
    ids=["lines", "word", "version", "header", "length", "lengths", "chunk", "long", "large", "tls"],
)
def test_what_is_not_http_is_refused_and_closed(tiny, raw, data, status):
    raw.send(data)
    got, headers, body = raw.read_response()
    assert got == status
    assert headers["connection"] == "close"
    assert json.loads(body)["error"]["message"]
    assert closed(raw)
    assert tiny.http.get("/health").status_code == 200


def test_half_a_request_is_no_request(tiny):
    for data in (b"", b"POST /v1", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{}"):
        with RawConnection(tiny.port) as connection:
            connection.send(data)
    assert tiny.http.get("/health").status_code == 200
