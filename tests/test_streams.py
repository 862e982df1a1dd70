"""Many clients at once, and clients that leave."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from raw_http import RawConnection
from weft_server import report_latencies, wait_until

PROMPTS = ["the License", " of this", "a", "Copy", "you may", " the work", "in any", "this program is"]
# Some seconds of work: it does not end by itself before the client has left.
LONG = {"prompt": "the", "n": 48, "max_tokens": 500, "ignore_eos": True, "temperature": 1}


def streamed(client, prompt, **parameters):
    text = ""
    for chunk in client.completions.create(prompt=prompt, stream=True, **parameters):
        text += chunk.choices[0].text if chunk.choices else ""
    return text


@pytest.mark.parametrize("parameters", [{"temperature": 0}, {"temperature": 1.2, "seed": 11}], ids=["greedy", "seeded"])
def test_eight_clients_get_the_same_text_as_alone(tiny, parameters):
    parameters = dict(model="tiny", max_tokens=100, extra_body={"ignore_eos": True}, **parameters)
    alone = [streamed(tiny.client, p, **parameters) for p in PROMPTS]
    latencies = []
    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        futures = [pool.submit(streamed, tiny.client, p, **parameters) for p in PROMPTS]
        while not all(f.done() for f in futures):
            start = time.monotonic()
            assert tiny.http.get("/health").status_code == 200
            latencies.append(time.monotonic() - start)
        together = [f.result() for f in futures]
    assert together == alone
    assert latencies  # the server answered others while the streams ran
    report_latencies(latencies)


def idle(server):
    return server.metric("num_requests_running") == 0 and server.metric("num_requests_waiting") == 0


def aborted(server):
    return server.metric("request_success_total", finished_reason="abort")


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "waiting"])
@pytest.mark.parametrize("leave", ["close", "reset"])
def test_a_client_that_leaves_cancels_its_call(tiny, stream, leave):
    wait_until(lambda: idle(tiny), "the server is idle")
    before = aborted(tiny)
    connection = RawConnection(tiny.port)
    connection.post("/v1/completions", {**LONG, "stream": stream})
    if stream:
        connection.read_until(b"data: ")
    else:
        wait_until(lambda: tiny.metric("num_requests_running") > 0, "the call runs")
    connection.reset() if leave == "reset" else connection.socket.close()
    wait_until(lambda: idle(tiny), "the call is cancelled")
    assert aborted(tiny) > before


def test_a_client_that_leaves_with_a_request_behind_it_cancels_its_call(tiny):
    wait_until(lambda: idle(tiny), "the server is idle")
    before = aborted(tiny)
    with RawConnection(tiny.port) as connection:
        connection.post("/v1/completions", {**LONG, "stream": True})
        connection.post("/v1/completions", {"prompt": "a"})
        connection.read_until(b"data: ")
    wait_until(lambda: idle(tiny), "the call is cancelled")
    assert aborted(tiny) > before


def test_a_client_that_does_not_read_holds_nobody_up(tiny):
    with RawConnection(tiny.port) as silent:
        silent.post("/v1/completions", {**LONG, "stream": True, "logprobs": 20, "return_token_ids": True})
        for _ in range(5):
            answer = tiny.client.completions.create(model="tiny", prompt="the", max_tokens=20)
            assert answer.choices[0].finish_reason in ("stop", "length")
    wait_until(lambda: idle(tiny), "the silent client's call is cancelled")


def test_a_long_prompt_delays_no_other_client(tiny):
    """Its tokenization runs beside the I/O thread: others are answered before it is refused."""
    order = []

    def long_prompt():
        response = tiny.http.post("/v1/completions", json={"prompt": "the License of this " * 400_000})
        assert response.json()["error"]["code"] == "context_length_exceeded"
        order.append("long")

    thread = threading.Thread(target=long_prompt)
    thread.start()
    while thread.is_alive():
        assert tiny.http.get("/health").status_code == 200
        order.append("health")
    thread.join()
    assert order.count("long") == 1
    assert order.index("long") > 0


def test_many_connections(tiny):
    connections = [RawConnection(tiny.port) for _ in range(200)]
    for i, connection in enumerate(connections):
        connection.post("/v1/completions", {"prompt": [5 + i], "max_tokens": 8, "temperature": 0, "stream": True})
    for connection in connections:
        status, _, body = connection.read_response()
        assert status == 200
        assert body.endswith(b"data: [DONE]\n\n")
        connection.socket.close()
    assert json.loads(tiny.http.get("/health").text)["status"] == "ok"
