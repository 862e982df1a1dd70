"""POST /v1/completions through the official client."""

import json
import struct

import numpy
import pytest

from conftest import DATA

GREEDY = dict(model="tiny", temperature=0, max_tokens=16)
EXACT = {"ignore_eos": True, "return_token_ids": True}


def complete(client, prompt, extra_body=None, **parameters):
    return client.completions.create(prompt=prompt, extra_body=extra_body, **parameters)


def tensor(path, name):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length])[name]
    assert entry["dtype"] == "F32"
    begin, end = entry["data_offsets"]
    return numpy.frombuffer(data[8 + length + begin : 8 + length + end], numpy.float32).reshape(entry["shape"])


@pytest.fixture(scope="module")
def reference_logprobs():
    """[positions, vocabulary] at each token of the reference's prompt."""
    logits = tensor(DATA / "tiny/llama/expected.safetensors", "logits").astype(numpy.float64)
    peak = logits.max(axis=1, keepdims=True)
    return logits - peak - numpy.log(numpy.exp(logits - peak).sum(axis=1, keepdims=True))


def test_greedy_tokens_are_the_reference_s(client, expected):
    answer = complete(client, expected["prompt"], EXACT, model="tiny", temperature=0, max_tokens=48)
    (choice,) = answer.choices
    assert answer.id.startswith("cmpl-")
    assert answer.object == "text_completion"
    assert choice.prompt_token_ids == expected["prompt"]
    assert choice.token_ids == expected["greedy"]
    assert choice.finish_reason == "length"
    assert answer.usage.prompt_tokens == 96
    assert answer.usage.completion_tokens == 48


def test_echoed_logprobs_are_the_reference_s(client, expected, reference_logprobs):
    answer = complete(client, expected["prompt"], echo=True, logprobs=5, max_tokens=0, model="tiny")
    logprobs = answer.choices[0].logprobs
    assert answer.usage.completion_tokens == 0
    assert answer.choices[0].finish_reason == "length"
    assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
    wanted = [reference_logprobs[i, token] for i, token in enumerate(expected["prompt"][1:])]
    assert numpy.allclose(logprobs.token_logprobs[1:], wanted, atol=1e-3)
    for i, top in enumerate(logprobs.top_logprobs[1:]):
        best = sorted(reference_logprobs[i], reverse=True)[:5]
        assert numpy.allclose(sorted(top.values(), reverse=True)[:5], best, atol=1e-3)


def test_output_logprobs_are_the_model_s_own(client, expected, reference_logprobs):
    # Penalties and temperature change what is drawn, not what is reported.
    answer = complete(client, expected["prompt"], EXACT, model="tiny", temperature=1.5, seed=1, max_tokens=1, logprobs=0)
    token = answer.choices[0].token_ids[0]
    assert abs(answer.choices[0].logprobs.token_logprobs[0] - reference_logprobs[-1, token]) < 1e-3


def test_a_batch_is_its_prompts_alone(client):
    for prompts in (["the License", " of this", "a"], [[5, 6, 7], [300], [8] * 70]):
        batch = complete(client, prompts, n=2, temperature=1.2, seed=3, model="tiny")
        assert [c.index for c in batch.choices] == list(range(6))
        alone = [c.text for p in prompts for c in complete(client, p, n=2, temperature=1.2, seed=3, model="tiny").choices]
        assert [c.text for c in batch.choices] == alone
        assert batch.usage.completion_tokens <= 6 * 16


def test_streams_are_the_whole_answers(client):
    prompts = ["the License", " of this"]
    parameters = dict(n=2, echo=True, logprobs=2, temperature=1.2, seed=3, model="tiny", max_tokens=20)
    whole = complete(client, prompts, **parameters)
    choices = {i: {"text": "", "tokens": [], "offsets": [], "finish": None} for i in range(4)}
    for chunk in complete(client, prompts, stream=True, **parameters):
        for choice in chunk.choices:
            state = choices[choice.index]
            assert state["finish"] is None
            state["text"] += choice.text
            state["finish"] = choice.finish_reason
            if choice.logprobs:
                state["tokens"] += choice.logprobs.tokens
                state["offsets"] += choice.logprobs.text_offset
    for choice in whole.choices:
        state = choices[choice.index]
        assert state["text"] == choice.text
        assert state["finish"] == choice.finish_reason
        assert state["tokens"] == choice.logprobs.tokens
        assert state["offsets"] == choice.logprobs.text_offset


def test_offsets_point_at_the_tokens(client):
    answer = complete(client, "the License of this", echo=True, logprobs=0, **GREEDY)
    (choice,) = answer.choices
    assert choice.text.startswith("the License of this")
    assert len(choice.logprobs.tokens) == answer.usage.total_tokens
    for token, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset):
        if not token.startswith(("bytes:", "<|")) and "\ufffd" not in choice.text[offset : offset + len(token)]:
            assert choice.text[offset:].startswith(token)


def test_echo_without_logprobs(client):
    alone = complete(client, "the License \u20ac", **GREEDY).choices[0].text
    assert complete(client, "the License \u20ac", echo=True, **GREEDY).choices[0].text == "the License \u20ac" + alone
    answer = complete(client, "the License", echo=True, max_tokens=0, model="tiny")
    assert answer.choices[0].text == "the License"
    assert answer.choices[0].logprobs is None
    assert answer.usage.completion_tokens == 0


def test_the_default_length_is_the_api_s(client):
    answer = complete(client, "the", {"ignore_eos": True}, model="tiny", temperature=0)
    assert answer.usage.completion_tokens == 16


def test_logit_bias_decides(client):
    ids = complete(client, "the", EXACT, logit_bias={"77": 100}, **GREEDY).choices[0].token_ids
    assert ids == [77] * 16


def test_frequency_penalty_wears_a_bias_down_and_presence_penalty_does_not(client):
    def ids(**penalty):
        parameters = dict(model="tiny", temperature=0, max_tokens=64, logit_bias={"77": 20}, **penalty)
        return complete(client, "the", EXACT, **parameters).choices[0].token_ids

    assert ids() == [77] * 64
    assert ids(presence_penalty=2) == [77] * 64  # it counts once
    worn = ids(frequency_penalty=2)  # each 77 costs 2: after some ten others win
    assert worn[0] == 77 and worn.count(77) < 32


def test_greedy_by_other_means(client):
    greedy = complete(client, "the License", **GREEDY).choices[0].text
    hot = dict(model="tiny", temperature=1.8, seed=5, max_tokens=16)
    assert complete(client, "the License", {"top_k": 1}, **hot).choices[0].text == greedy
    assert complete(client, "the License", {"min_p": 1.0}, **hot).choices[0].text == greedy
    assert complete(client, "the License", top_p=0, **hot).choices[0].text == greedy
    assert complete(client, "the License", **hot).choices[0].text != greedy


def test_repetition_penalty_holds_for_prompt_and_output(client):
    def ids(**penalty):
        return complete(client, "the License", {**EXACT, **penalty}, model="tiny", temperature=0, max_tokens=64).choices[0]

    plain, penalized = ids(), ids(repetition_penalty=10)
    assert len(set(penalized.token_ids)) > len(set(plain.token_ids))
    assert not set(penalized.token_ids[:8]) & set(penalized.prompt_token_ids)


def test_end_tokens(client, expected):
    whole = complete(client, expected["prompt"], EXACT, **GREEDY)
    ids = whole.choices[0].token_ids
    stop, place = ids[2], 2
    assert stop not in ids[:place]
    answer = complete(client, expected["prompt"], {**EXACT, "stop_token_ids": [stop]}, **GREEDY)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].token_ids == ids[: place + 1]
    assert whole.choices[0].text.startswith(answer.choices[0].text)
    shown = complete(
        client, expected["prompt"], {**EXACT, "stop_token_ids": [stop], "include_stop_str_in_output": True}, **GREEDY
    )
    assert len(shown.choices[0].text) > len(answer.choices[0].text)
    later = complete(client, expected["prompt"], {**EXACT, "stop_token_ids": [stop], "min_tokens": place + 2}, **GREEDY)
    assert stop not in later.choices[0].token_ids[: place + 2]
    assert later.usage.completion_tokens > place + 1


def test_eos_ends_unless_it_is_ignored(client):
    # Token 0 is this model's end of text; the bias makes it certain.
    parameters = dict(model="tiny", temperature=0, max_tokens=5, logit_bias={"0": 100})
    answer = complete(client, "the", {"return_token_ids": True}, **parameters)
    assert answer.choices[0].token_ids == [0]
    assert answer.choices[0].text == ""
    assert answer.choices[0].finish_reason == "stop"
    ignored = complete(client, "the", EXACT, **parameters)
    assert ignored.choices[0].token_ids == [0] * 5
    assert ignored.choices[0].text == ""
    assert ignored.choices[0].finish_reason == "length"
    shown = complete(client, "the", {**EXACT, "skip_special_tokens": False}, **parameters)
    assert shown.choices[0].text == "<|endoftext|>" * 5
    forced = complete(client, "the", {"return_token_ids": True, "min_tokens": 3}, **parameters)
    assert 0 not in forced.choices[0].token_ids[:3]
    assert forced.choices[0].token_ids[3] == 0


def test_half_characters_are_replaced(client):
    # 0xE2 begins a character of three bytes; nothing completes it.
    start = complete(client, "\u20ac", EXACT, **GREEDY).choices[0].prompt_token_ids[0]
    answer = complete(client, "the", EXACT, model="tiny", temperature=0, max_tokens=2, logit_bias={str(start): 100})
    assert answer.choices[0].token_ids == [start, start]
    assert answer.choices[0].text == "\ufffd\ufffd"
