"""Prompts beside running streams: every mode, deadlines, the prefix cache, traces, as clients see them."""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from raw_http import RawConnection
from weft_server import WeftServer, wait_until

MODES = ["serial", "chunked", "layered", "fused", "split", "auto"]


def complete(server, ids, **parameters):
    body = {"prompt": ids, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **parameters}
    return server.http.post("/v1/completions", json=body, timeout=120)


def tokens_of(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["token_ids"]


def random_requests(seed, count, vocabulary, longest):
    """Of any length, greedy and seeded; some begin like the one before."""
    rng = random.Random(seed)
    requests = []
    for i in range(count):
        length = rng.choice([rng.randint(1, 40), rng.randint(1, longest)])
        ids = [rng.randrange(270, vocabulary) for _ in range(length)]
        if requests and rng.random() < 0.3:
            ids = (requests[-1][0][: rng.randint(1, longest)] + ids)[:longest]
        how = {"max_tokens": rng.randint(1, 40)}
        if rng.random() < 0.5:
            how |= {"temperature": 0.9, "seed": rng.randrange(10**6)}
        requests.append((ids, how))
    return requests


def same_alone_and_together(path, mode, flags, requests):
    with WeftServer(path, "--mode", "chunked", *flags) as server:
        alone = [tokens_of(complete(server, ids, **how)) for ids, how in requests]
    with WeftServer(path, "--mode", mode, *flags) as server:
        with ThreadPoolExecutor(len(requests)) as pool:
            # A target so short that passes are left between layers.
            answers = list(pool.map(lambda r: complete(server, r[0], itl_target_ms=1, **r[1]), requests))
        assert [tokens_of(a) for a in answers] == alone


@pytest.mark.parametrize("mode", MODES)
def test_neighbours_change_no_token_in_any_mode(tiny_model, mode):
    same_alone_and_together(tiny_model, mode, ["--kv-memory", "2M"], random_requests(MODES.index(mode), 24, 500, 400))


@pytest.mark.model
@pytest.mark.parametrize("mode", ["fused", "split"])
def test_neighbours_change_no_token_of_the_default_model(smollm2_path, mode):
    same_alone_and_together(smollm2_path, mode, [], random_requests(3, 12, 40000, 700))


def test_a_missed_deadline_is_a_504_with_its_name(tiny):
    long = [300] * 200
    answer = complete(tiny, long, max_tokens=300, n=24, temperature=1, request_timeout_ms=30)
    assert answer.status_code == 504
    error = answer.json()["error"]
    assert error["type"] == "timeout" and error["code"] == "request_timeout"
    assert "30 ms (request_timeout_ms)" in error["message"]
    # The server goes on, and has let go of everything.
    assert complete(tiny, [300], max_tokens=2).status_code == 200
    wait_until(lambda: tiny.metric("num_requests_running") == 0, "nothing runs")
    assert tiny.metric("kv_cache_usage_perc") == 0


def test_a_stream_hears_of_a_missed_deadline(tiny):
    body = {"prompt": [300] * 20, "max_tokens": 400, "n": 24, "temperature": 1, "ignore_eos": True, "stream": True,
            "request_timeout_ms": 200}
    with tiny.http.stream("POST", "/v1/completions", json=body) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    error = json.loads(lines[-2].removeprefix("data: "))["error"]
    assert error["code"] == "request_timeout"
    assert len(lines) > 3  # what came before is not lost


def test_deadlines_of_the_server_hold_for_all(tiny_model):
    with WeftServer(tiny_model, "--ttft-timeout-ms", "20", "--max-sequences", "1") as server:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: complete(server, [300 + i] * 5, max_tokens=500), range(8)))
        codes = [a.status_code for a in answers]
        assert 200 in codes and 504 in codes
        assert {a.json()["error"]["code"] for a in answers if a.status_code == 504} == {"ttft_timeout"}


def test_a_client_that_does_not_read_ends_alone(tiny_model):
    asked = {"max_tokens": 400, "temperature": 0.9, "seed": 5}
    with WeftServer(tiny_model) as server:
        alone = tokens_of(complete(server, [300, 301], **asked))
        with RawConnection(server.port, receive_buffer=4096) as slow:
            body = {"prompt": "a", "n": 128, "logprobs": 20, "max_tokens": 500, "ignore_eos": True, "stream": True}
            slow.post("/v1/completions", body)
            wait_until(lambda: server.metric("num_requests_running") > 0, "the slow client's request runs")
            assert tokens_of(complete(server, [300, 301], **asked)) == alone
            wait_until(lambda: "does not read" in server.logged(), "the slow client is given up")
            wait_until(lambda: server.metric("num_requests_running") == 0, "its request ends")
        assert server.metric("request_success_total", finished_reason="abort") > 0
        assert tokens_of(complete(server, [300, 301], **asked)) == alone


@pytest.mark.parametrize("name", ["itl_target_ms", "ttft_timeout_ms", "token_timeout_ms", "request_timeout_ms"])
@pytest.mark.parametrize("value", [0, -1, "soon", 1.5])
def test_a_wrong_time_is_named(tiny, name, value):
    answer = complete(tiny, [300], max_tokens=1, **{name: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == name


def test_a_prompt_seen_before_is_found(tiny):
    ids = [random.Random(9).randrange(270, 500) for _ in range(200)]
    first = complete(tiny, ids, max_tokens=8)
    again = complete(tiny, ids, max_tokens=8)
    assert tokens_of(first) == tokens_of(again)
    assert first.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert again.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 192  # full blocks of 64
    assert tiny.metric("prefix_cache_hits_total") >= 192


def test_a_trace_shows_each_quantum(tiny_model, tmp_path):
    trace = tmp_path / "trace.json"
    with WeftServer(tiny_model, "--trace", trace, "--mode", "fused") as server:
        complete(server, [300] * 100, max_tokens=5)
        assert server.stop() == 0
    spans = [e for e in json.loads(trace.read_text()) if e["ph"] == "X"]
    assert sum(e["args"]["prefill_rows"] > 0 for e in spans) >= 1
    assert sum(e["args"]["decode_rows"] > 0 and e["args"]["layer_begin"] == 0 for e in spans) == 4


def test_metrics_have_vllms_names_by_option(tiny_model):
    with WeftServer(tiny_model, "--metrics-prefix", "vllm:") as server:
        complete(server, [300] * 10, max_tokens=5)
        text = server.http.get("/metrics").text
    for name in ["time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds",
                 "e2e_request_latency_seconds", "request_queue_time_seconds", "num_requests_running",
                 "num_requests_waiting", "kv_cache_usage_perc", "num_preemptions_total", "prefix_cache_hits_total",
                 "prefix_cache_queries_total", "prompt_tokens_total", "generation_tokens_total",
                 "iteration_tokens_total", "stall_seconds_total", "core_busy_share", "layer_switches_total"]:
        assert f"\nvllm:{name}" in text, name


def test_the_target_is_printed(tiny_model):
    with WeftServer(tiny_model, "--itl-target-ms", "75") as server:
        assert "held to 75 ms" in server.logged()


def test_a_mode_that_does_not_exist(tiny_model):
    with pytest.raises(RuntimeError, match="no mode 'woven'; there are serial, chunked"):
        WeftServer(tiny_model, "--mode", "woven")


def test_health_is_prompt_beside_a_long_prompt(tiny):
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(complete, tiny, [300] * 480, max_tokens=20, n=16, temperature=1)
        while not running.done():
            assert httpx.get(f"{tiny.url}/health").status_code == 200
        assert running.result().status_code == 200
