#!/usr/bin/env python3
"""Generates common.filter and sample.txt: the common passwords and words that tenantd recognizes in a new password.

The lists come from two packages of the Python Package Index:

- zxcvbn 4.4.28 (MIT license), frequency_lists.py: common passwords, words of the English Wikipedia and of films, and names from the
  census of the United States.
- Django 5.2 (BSD 3-Clause license), common-passwords.txt.gz: 20,000 common passwords, made by Royce Williams.

    pip download --no-deps zxcvbn==4.4.28 Django==5.2
    python3 generate.py zxcvbn-4.4.28.tar.gz Django-5.2-py3-none-any.whl

`--check` writes nothing. It fails if the files differ from what the lists give, or if the filter lacks a word.

The filter is a Bloom filter. Its first 8 bytes are the number of words, little-endian; the rest are its bits. The positions
of a word follow from the SHA-256 digest of its lowercase text: (a + i * b) modulo the number of bits, for i below 28, where
a and b are the first two 64-bit numbers of the digest, little-endian, and b is made odd.
"""

import ast
import gzip
import hashlib
import pathlib
import struct
import sys
import tarfile
import zipfile

SHORTEST, LONGEST = 4, 24
BITS_PER_WORD, PROBES = 40, 28
SAMPLE_STEP = 25
LISTS = ["passwords", "english_wikipedia", "us_tv_and_film", "female_names", "male_names", "surnames"]


def zxcvbn_words(archive):
    with tarfile.open(archive) as files:
        source = files.extractfile("zxcvbn-4.4.28/zxcvbn/frequency_lists.py").read().decode()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "FREQUENCY_LISTS":
            return read_lists(statement.value)
    raise SystemExit(f"{archive} has no FREQUENCY_LISTS")


def read_lists(node):
    lists = {key.value: value for key, value in zip(node.keys, node.values)}
    # Each list is a text with commas: "a,b,c".split(",").
    return {name: ast.literal_eval(lists[name].func.value if isinstance(lists[name], ast.Call) else lists[name]) for name in LISTS}


def django_words(wheel):
    with zipfile.ZipFile(wheel) as files:
        return gzip.decompress(files.read("django/contrib/auth/common-passwords.txt.gz")).decode().split()


def words(archive, wheel):
    found = set(django_words(wheel))
    for content in zxcvbn_words(archive).values():
        found.update(content.split(",") if isinstance(content, str) else content)
    lower = {word.lower() for word in found}
    return sorted(word for word in lower if SHORTEST <= len(word) <= LONGEST)


def positions(word, bits):
    a, b = struct.unpack_from("<QQ", hashlib.sha256(word.encode()).digest())
    return [(a + i * (b | 1)) % 2**64 % bits for i in range(PROBES)]


def build(known):
    content = bytearray((len(known) * BITS_PER_WORD + 7) // 8)
    for word in known:
        for position in positions(word, len(content) * 8):
            content[position // 8] |= 1 << position % 8
    return struct.pack("<Q", len(known)) + bytes(content)


def sample(known):
    lines, line = [], ""
    for word in known[::SAMPLE_STEP]:
        if len(line) + len(word) > 120:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line, ""])


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    known = words(*arguments)
    folder = pathlib.Path(__file__).parent
    files = {"common.filter": build(known), "sample.txt": sample(known).encode()}
    for name, content in files.items():
        path = folder / name
        if "--check" in sys.argv:
            if path.read_bytes() != content:
                raise SystemExit(f"{path} is out of date")
        else:
            path.write_bytes(content)
    content = files["common.filter"][8:]
    holds = lambda word: all(content[at // 8] >> at % 8 & 1 for at in positions(word, len(content) * 8))
    assert all(map(holds, known))
    print(f"{len(known)} words, {len(content) + 8} bytes")


main()
