"""What an operator sees: health, models, metrics, and a server that stops."""

import json
import socket
import subprocess
import threading

import pytest

from raw_http import RawConnection
from weft_server import WEFT, WeftServer, wait_until

LONG = {"prompt": "the", "max_tokens": 500, "ignore_eos": True, "temperature": 0, "stream": True}


def test_health_and_version(tiny):
    health = tiny.http.get("/health").json()
    assert health["status"] == "ok"
    assert tiny.http.get("/ready").json() == {"status": "ready"}
    printed = subprocess.run([WEFT, "--version"], check=True, capture_output=True, text=True).stdout
    assert tiny.http.get("/version").json()["version"] in printed


def test_models(tiny, client):
    (model,) = client.models.list().data
    assert (model.id, model.object, model.owned_by) == ("tiny", "model", "weft")
    assert model.max_model_len == 512
    assert client.models.retrieve("tiny") == model
    assert tiny.http.get("/v1/models/t%69ny").status_code == 200


def test_metrics_count(tiny, client):
    assert tiny.http.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")
    labels = dict(handler="/v1/completions", method="POST")
    before = tiny.metrics()
    answer = client.completions.create(model="tiny", prompt="the License", max_tokens=5, extra_body={"ignore_eos": True})
    tiny.http.post("/v1/completions", json={"prompt": 1})

    def more(name, **labels):
        key = (f"weft:{name}", tuple(sorted(labels.items())))
        return tiny.metrics()[key] - before.get(key, 0)

    assert more("http_requests_total", status="200", **labels) == 1
    assert more("http_requests_total", status="400", **labels) == 1
    wait_until(lambda: more("generation_tokens_total") == 5, "the tokens are counted")
    assert more("prompt_tokens_total") == answer.usage.prompt_tokens
    assert more("request_success_total", finished_reason="length") == 1
    tiny.http.request("FROB", "/some/where")
    assert more("http_requests_total", handler="other", method="other", status="404") >= 1


def test_the_log_holds_no_prompts(tiny, client):
    client.completions.create(model="tiny", prompt="a secret that nobody logs", max_tokens=1)
    wait_until(lambda: "POST /v1/completions 200" in tiny.logged(), "the request is logged")
    assert "secret" not in tiny.logged()


def test_a_server_that_stops_finishes_what_runs(tiny_model):
    with WeftServer(tiny_model, "--drain-seconds", "60") as server:
        idle_connection = RawConnection(server.port)
        with RawConnection(server.port) as connection:
            connection.post("/v1/completions", {**LONG, "n": 16})
            connection.read_until(b"data: ")
            stopped = []
            thread = threading.Thread(target=lambda: stopped.append(server.stop()))
            thread.start()
            rest = connection.read_to_end()
            thread.join()
        assert rest.count(b'"finish_reason":"length"') == 16
        assert b"data: [DONE]\n\n" in rest
        assert stopped == [0]
        assert idle_connection.read_to_end() == b""
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)


def test_a_server_without_grace_tells_its_clients(tiny_model):
    with WeftServer(tiny_model, "--drain-seconds", "0") as server:
        with RawConnection(server.port) as stream, RawConnection(server.port) as whole:
            stream.post("/v1/completions", {**LONG, "n": 32})
            stream.read_until(b"data: ")
            whole.post("/v1/completions", {**LONG, "n": 32, "stream": False})
            wait_until(lambda: server.metric("num_requests_running") > 32, "both calls run")
            assert server.stop() == 0
            rest = stream.read_to_end()
            status, _, body = whole.read_response()
        assert b'"type":"service_unavailable"' in rest and b"data: [DONE]\n\n" in rest
        assert status == 503
        assert json.loads(body)["error"]["type"] == "service_unavailable"


def test_connections_beyond_the_limit_are_told_so(tiny_model):
    # 160 files less the server's own 64: 96 connections, two of which the test's HTTP client may hold.
    with WeftServer(tiny_model, open_files=160) as server:
        connections = [RawConnection(server.port) for _ in range(94)]
        over = RawConnection(server.port)
        wait_until(lambda: refused(server), "the limit is reached")
        for connection in connections[:50]:
            connection.socket.close()
        wait_until(lambda: not refused(server), "there is room again")
        over.socket.close()
        for connection in connections[50:]:
            connection.socket.close()


def refused(server):
    with RawConnection(server.port) as connection:
        connection.send(b"GET /health HTTP/1.1\r\nHost: weft\r\nConnection: close\r\n\r\n")
        return connection.read_head()[0] == 503


def test_a_port_in_use_is_an_error_that_names_it(tiny, tiny_model):
    ended = subprocess.run(
        [WEFT, "serve", tiny_model, "--port", str(tiny.port)], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode not in (0, None)
    assert f"127.0.0.1:{tiny.port}" in ended.stderr
