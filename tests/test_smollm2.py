"""The default model against what an independent implementation computed."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from weft_server import report_latencies

pytestmark = pytest.mark.model


def ask(server, messages, **parameters):
    return server.client.chat.completions.create(
        model="smollm2", messages=messages, temperature=0, extra_body={"return_token_ids": True}, **parameters
    )


def agreed(margins):
    """Tokens before the first one that two close candidates could decide either way."""
    return next((i for i, margin in enumerate(margins) if margin < 1), len(margins))


def test_answers_are_the_reference_s(smollm2, smollm2_expected):
    compared = 0
    for chat in smollm2_expected["chat"]:
        answer = ask(smollm2, chat["messages"], max_tokens=64)
        assert answer.prompt_token_ids == chat["ids"]
        count = agreed(chat["margins"])
        assert answer.choices[0].token_ids[:count] == chat["greedy"][:count]
        if count == len(chat["greedy"]):
            assert answer.choices[0].message.content == chat["text"]
        compared += count
    assert compared > 0


def stream_text(server, messages):
    stream = server.client.chat.completions.create(
        model="smollm2", messages=messages, temperature=0, max_tokens=48, stream=True
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream)


def test_eight_clients_get_the_same_text_as_alone(smollm2, smollm2_expected):
    chats = [chat["messages"] for chat in smollm2_expected["chat"]]
    assert len(chats) == 8
    alone = [ask(smollm2, messages, max_tokens=48).choices[0].message.content for messages in chats]
    latencies = []
    with ThreadPoolExecutor(len(chats)) as pool:
        futures = [pool.submit(stream_text, smollm2, messages) for messages in chats]
        while not all(f.done() for f in futures):
            response = smollm2.http.get("/health")
            assert response.status_code == 200
            latencies.append(response.elapsed.total_seconds())
        together = [f.result() for f in futures]
    assert together == alone
    assert latencies
    report_latencies(latencies)
