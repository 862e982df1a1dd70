"""The Ascend kernels on the twin, as clients see them: the same server, with --device ascend-twin."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from test_score import DATA, tensor
from weft_server import WEFT, WeftServer

TWIN = ["--device", "ascend-twin", "--ascend-cores", "4"]
MODES = {"serial": 1, "fused": 2, "split": 3}  # each with a seed of its own
# Eight logits of a row may be off by this much. Weights and rows are rounded to half wherever they are multiplied,
# about 13 times a layer with relative errors of at most 2^-11 that are independent of each other; so the last hidden
# state is off by 2^-11 sqrt(13 x 30 + 2) = 1 % at the most, which moves a logit by 1 % of the deviation of a row's
# logits (about 4) for each standard deviation: 0.25 is beyond six of them.
LOGIT_BOUND = 0.25


def complete(server, ids, **parameters):
    body = {"prompt": ids, "temperature": 0, **parameters}
    answer = server.http.post("/v1/completions", json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def teacher_forced(server, chats):
    """The five likeliest tokens at each position of each chat and its answer."""
    with ThreadPoolExecutor(len(chats)) as pool:
        texts = [chat["ids"] + chat["greedy"] for chat in chats]
        return list(
            pool.map(
                lambda ids: complete(server, ids, max_tokens=0, echo=True, logprobs=5, return_token_ids=True)["logprobs"],
                texts,
            )
        )


@pytest.mark.parametrize("mode", ["serial", "layered", "fused", "split", "auto"])
def test_a_small_model_answers_in_every_mode(tiny_model, expected, mode):
    with WeftServer(tiny_model, "--mode", mode, "--twin-seed", "7", *TWIN) as server:
        answer = complete(server, expected["prompt"], max_tokens=16, ignore_eos=True, return_token_ids=True)
        assert answer["token_ids"] == expected["greedy"][:16]


def test_what_the_device_lacks_is_said(tiny_model):
    def error(*flags):
        run = subprocess.run([WEFT, "run", tiny_model, "-p", "x", *flags], capture_output=True, text=True, timeout=60)
        assert run.returncode != 0
        return run.stderr

    assert "has 20" in error("--device", "ascend-twin", "--ascend-cores", "21")
    assert "-DWEFT_CANN=ON" in error("--device", "ascend")
    assert "f16" in error("--device", "ascend-twin", "--kv-type", "q8_0")
    assert "experts" in error_of_experts()


def error_of_experts():
    run = subprocess.run(
        [WEFT, "run", DATA / "tiny/mixtral/f32.gguf", "--raw", "-p", "x", "--device", "ascend-twin"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode != 0
    return run.stderr


@pytest.mark.model
def test_the_default_model_in_three_modes(smollm2_path, smollm2_expected):
    """Teacher-forced on eight chats: the reference's token wherever it is sure, and the same bits in every mode."""
    chats = smollm2_expected["chat"]
    forced = {}
    for mode, seed in MODES.items():
        flags = ["--mode", mode, "--twin-seed", str(seed), "--context", "512", "--max-sequences", "8", *TWIN]
        with WeftServer(smollm2_path, *flags, name="smollm2") as server:
            forced[mode] = teacher_forced(server, chats)
    compared = 0
    for chat, logprobs in zip(chats, forced["serial"], strict=True):
        first = len(chat["ids"])
        for i, (token, margin) in enumerate(zip(chat["greedy"], chat["margins"], strict=True)):
            if margin <= 0.5:
                continue
            compared += 1
            top = logprobs["top_logprobs"][first + i]
            assert logprobs["token_logprobs"][first + i] == max(top.values()), (chat["prompt"], i, token)
    assert compared > 150
    assert forced["fused"] == forced["serial"]
    assert forced["split"] == forced["serial"]


@pytest.mark.model
@pytest.mark.long
def test_the_default_model_scores_a_passage(smollm2_path, smollm2_expected, tmp_path):
    ids = tmp_path / "ids.json"
    ids.write_text(json.dumps(smollm2_expected["passage"]["ids"]))
    run = subprocess.run(
        [WEFT, "score", smollm2_path, "--ids", ids, *TWIN], capture_output=True, text=True, timeout=600, check=True
    )
    scored = json.loads(run.stdout)
    assert scored["nll"] == pytest.approx(smollm2_expected["passage"]["nll"], abs=0.01)
    top_ids = tensor(DATA / "smollm2.safetensors", "passage.top_ids")
    top_logits = tensor(DATA / "smollm2.safetensors", "passage.top_logits")
    worst = 0
    for position, want_ids, want in zip(scored["positions"], top_ids, top_logits, strict=True):
        got = dict(position["top"])
        if want[0] - want[1] > 0.5:
            assert position["top"][0][0] == want_ids[0]
        # Where the eighth and the ninth are close, either may be there.
        for token, logit in zip(want_ids, want, strict=True):
            if token in got:
                worst = max(worst, abs(got[token] - logit))
    assert worst < LOGIT_BOUND
