"""Reads length-prefixed YAML documents, and writes for each a line of JSON, or `!error: …`."""

import json
import sys

import yaml


def check(value):
    """JSON would hide a key that is not text, and a date fails only when it is written."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is not text")
            check(inner)
    elif isinstance(value, list):
        for inner in value:
            check(inner)


def main():
    loader = {"pure": yaml.SafeLoader, "libyaml": getattr(yaml, "CSafeLoader", None)}[sys.argv[1]]
    if loader is None:
        sys.exit("this PyYAML is built without libyaml")
    source = sys.stdin.buffer
    while length := source.readline():
        document = source.read(int(length)).decode()
        try:
            value = yaml.load(document, Loader=loader)
            check(value)
            answer = json.dumps(value)
        except Exception as error:
            answer = "!error: " + " ".join(str(error).split())
        print(answer)


main()
