"""Compares gpipe's ids with those of the package `tokenizers`, on mixed text: English, scripts of all kinds, emoji, runs of
white space, contractions, special tokens, bytes that are no UTF-8 (which the reference gets as Python's errors="replace"
reads them), and every code point there is.

    check_tokenizers.py GPIPE GPT2_TOKENIZER_FOLDER [BERT_TOKENIZER_FOLDER]
"""
import array
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

BYTES = 1_500_000
RANGES = [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x590, 0x5FF),
          (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x206F), (0x2460, 0x24FF),
          (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF00, 0xFFEF), (0x1D100, 0x1D1FF),
          (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0x2F800, 0x2FA1F)]
SPACES = [" ", "  ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u2009", "\x0b", "\x0c", "\x85", "\u2028", "\x00",
          "\u200b", "\ufeff", " " * 40, "\n" * 12]
PIECES = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "1️⃣", "I'm", "we'll", "IT'S", "you’re", "'ſ", "'", "...", "(x)", "$1,234.56",
          "<|endoftext|>", "[MASK]", "[CLS]", "<|endoftext", "https://a.b/c?d=e&f", "snake_case", "the", "tokenization"]
INVALID = [b"\xff", b"\xc3", b"\xe4\xb8", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80", b"\xf4\x90\x80\x80",
           b"\xe0\x80\x80", b"\xf0\x8f", b"\xe1\x80\xc3"]
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
LATER = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def mixed(seed):
    draw = random.Random(seed)

    def word():
        low, high = draw.choice(RANGES)
        return "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 12)))

    makers = [lambda: word().encode(), lambda: word().encode(), lambda: draw.choice(SPACES).encode(),
              lambda: draw.choice(PIECES).encode(), lambda: draw.choice(INVALID),
              lambda: "".join(chr(draw.choice(CODES)) for _ in range(4)).encode(),
              lambda: str(draw.randrange(10 ** draw.randint(1, 12))).encode()]
    text = bytearray()
    while len(text) < BYTES:
        text += draw.choice(makers)()
        if draw.random() < 0.5:
            text += b" "
    return bytes(text)


def every_code():
    return " ".join("a" + chr(c) + "b " + chr(c) for c in CODES).encode()


def gpipe_ids(program, tokenizer, text, folder):
    (folder / "text").write_bytes(text)
    out = folder / "out.bin"
    subprocess.run([program, "tokenize", str(folder / "text"), "--tokenizer", str(tokenizer), "--out", str(out), "--force",
                    "-q"], check=True)
    data = out.read_bytes()
    return array.array("H" if data[:4] == (20240520).to_bytes(4, "little") else "I", data[1024:]).tolist()


def compare(program, name, reference, tokenizer, folder):
    good = True
    reference.no_truncation()
    reference.no_padding()
    for what, text in [("mixed 1", mixed(1)), ("mixed 2", mixed(2)), ("every code point", every_code())]:
        wanted = reference.encode(text.decode("utf-8", "replace"), add_special_tokens=False).ids
        found = gpipe_ids(program, tokenizer, text, folder)
        same = wanted == found
        good = good and same
        print(f"{name:34} {what:17} {len(text):>9} bytes {len(wanted):>9} ids  {'identical' if same else 'DIFFERENT'}")
        if not same:
            at = next((i for i, (a, b) in enumerate(zip(wanted, found)) if a != b), min(len(wanted), len(found)))
            print("   first at", at, wanted[at - 2 : at + 4], found[at - 2 : at + 4])
    return good


def gpt2(source):
    tokenizer = Tokenizer(models.BPE.from_file(str(source / "vocab.json"), str(source / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    return tokenizer


def trained(pre_tokenizer, folder):
    """A tokenizer that `tokenizers` trains and writes itself."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
                                  special_tokens=["<|endoftext|>", AddedToken("[MASK]", lstrip=True)])
    tokenizer.train_from_iterator([mixed(3).decode("utf-8", "replace")], trainer)
    tokenizer.save(str(folder / "trained.json"))
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def main():
    program, source = sys.argv[1], pathlib.Path(sys.argv[2])
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        good &= compare(program, "GPT-2, vocab.json + merges.txt", gpt2(source), source, folder)
        gpt2(source).save(str(folder / "gpt2.json"))
        good &= compare(program, "GPT-2, tokenizer.json", gpt2(source), folder / "gpt2.json", folder)
        kinds = [("trained, GPT-2's pattern", pre_tokenizers.ByteLevel(add_prefix_space=False)),
                 ("trained, a blank in front", pre_tokenizers.ByteLevel(add_prefix_space=True)),
                 ("trained, Llama 3's pattern", split(LATER % "{1,3}")), ("trained, Qwen 2's pattern", split(LATER % ""))]
        for kind, pre_tokenizer in kinds:
            good &= compare(program, kind, trained(pre_tokenizer, folder), folder / "trained.json", folder)
        if len(sys.argv) > 3:
            bert = pathlib.Path(sys.argv[3])
            reference = Tokenizer.from_file(str(bert / "tokenizer.json"))
            good &= compare(program, "BERT, tokenizer.json", reference, bert / "tokenizer.json", folder)
            good &= compare(program, "BERT, vocab.txt", reference, bert / "vocab.txt", folder)
            for kind, options in [("BERT, cased", dict(lowercase=False, strip_accents=False)),
                                  ("BERT, with accents", dict(lowercase=True, strip_accents=False)),
                                  ("BERT, cased without accents", dict(lowercase=False, strip_accents=True))]:
                reference.normalizer = normalizers.BertNormalizer(**options)
                reference.save(str(folder / "bert.json"))
                good &= compare(program, kind, reference, folder / "bert.json", folder)
    sys.exit(0 if good else 1)


main()
