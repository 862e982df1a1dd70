"""Trains a small SentencePiece BPE vocabulary and writes what the tests of src/text need.

    pip install sentencepiece gguf protobuf
    python make_sentencepiece.py TEXT_FILE...

sentencepiece.gguf       the vocabulary, without tensors
sentencepiece.json       texts and the ids that the sentencepiece package gives, with its space prefix and without
"""

import json
import pathlib
import random
import sys
import tempfile

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

HERE = pathlib.Path(__file__).parent


def train(corpus, folder):
    model = str(pathlib.Path(folder) / "model")
    sentencepiece.SentencePieceTrainer.train(
        input=[str(path) for path in corpus],
        model_prefix=model,
        model_type="bpe",
        vocab_size=700,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=True,
        allow_whitespace_only_pieces=True,
        max_sentence_length=1 << 20,
        control_symbols=["<|turn|>"],
        user_defined_symbols=["<tool>"],
        num_threads=1,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_file=model + ".model")


def kind(model, token):
    if model.is_unknown(token):
        return gguf.TokenType.UNKNOWN
    if model.is_control(token):
        return gguf.TokenType.CONTROL
    if model.is_byte(token):
        return gguf.TokenType.BYTE
    if model.id_to_piece(token) == "<tool>":
        return gguf.TokenType.USER_DEFINED
    return gguf.TokenType.NORMAL


def write_vocabulary(model, path):
    writer = gguf.GGUFWriter(path, "llama")
    ids = range(model.vocab_size())
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([model.id_to_piece(token) for token in ids])
    writer.add_token_scores([model.get_score(token) for token in ids])
    writer.add_token_types([kind(model, token) for token in ids])
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    writer.add_unk_token_id(model.unk_id())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def texts(corpus):
    rng = random.Random(7)
    fixed = ["", " ", "  ", "a", " a", "a ", "a  b   c    d", "Hello, world!", "tabs\tand\nnew\r\nlines\n\n", "1234567890",
             "naïve café — “quotes” … €5", "你好，世界！", "🙂👩‍👩‍👧", "\u0000\u0001\u007f", "banana bananas ananas", "the the the",
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "=====----=====", "</s> and <0x0A> and <unk>"]
    words = [word for path in corpus for word in path.read_text().split(" ")]
    mixed = []
    for length in range(1, 60):
        pieces = []
        for _ in range(length):
            pick = rng.random()
            if pick < 0.7:
                pieces.append(rng.choice(words))
            elif pick < 0.8:
                pieces.append(" " * rng.randrange(1, 5))
            elif pick < 0.9:
                pieces.append(chr(rng.choice([rng.randrange(1, 0x250), rng.randrange(0x3040, 0xA000)])))
            else:
                pieces.append(rng.choice(["haha", "lalala", "\n", "...", "don't", "x=1;"]))
        mixed.append(rng.choice(["", " "]).join(pieces))
    # Two things we do differently on purpose: a prefix after a special token, and U+2581 in a text is not a space.
    return [text for text in fixed + mixed if "<tool>" not in text and "\u2581" not in text]


def without_prefix(model):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.serialized_model_proto())
    proto.normalizer_spec.add_dummy_prefix = False
    return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def main():
    corpus = [pathlib.Path(name) for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        model = train(corpus, folder)
    plain = without_prefix(model)
    write_vocabulary(model, HERE / "sentencepiece.gguf")
    rows = [
        {"text": text, "ids": model.encode(text), "ids_without_prefix": plain.encode(text)} for text in texts(corpus)
    ]
    (HERE / "sentencepiece.json").write_text(json.dumps(rows, ensure_ascii=True, indent=0) + "\n")


main()
