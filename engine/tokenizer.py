"""Text -> token ids, from a checkpoint's tokenizer.json.

Text of users never becomes a control token, whatever it holds: control tokens come from `special` alone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tokenizers import Encoding
from tokenizers import Tokenizer as HfTokenizer

__all__ = ["Tokenizer", "TokenizerError"]

_SEMANTIC = re.compile(r"<\|semantic:(\d+)\|>")


class TokenizerError(ValueError):
    """A tokenizer.json that lacks what the model needs."""


class Tokenizer:
    """Ids are read from the vocabulary, never assumed."""

    def __init__(self, path: Path) -> None:
        """Read tokenizer.json from a folder. Raises TokenizerError."""
        file = path / "tokenizer.json"
        self._tokenizer = _load(file)
        self._vocab: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        semantic = {int(m[1]): i for name, i in self._vocab.items() if (m := _SEMANTIC.fullmatch(name))}
        if not semantic:
            raise TokenizerError(f"{file} has no <|semantic:i|> tokens")
        self.semantic_begin = min(semantic.values())
        self.semantic_end = max(semantic.values())
        if any(self.semantic_begin + code != i for code, i in semantic.items()):
            raise TokenizerError(f"{file}: the ids of <|semantic:i|> are not contiguous in i")
        self.im_end = self.special("<|im_end|>")

    @property
    def semantic_count(self) -> int:
        return self.semantic_end - self.semantic_begin + 1

    def special(self, name: str) -> int:
        """The id of a control token such as `<|im_start|>`."""
        try:
            return self._vocab[name]
        except KeyError:
            raise TokenizerError(f"the vocabulary lacks {name}") from None

    def encode(self, text: str) -> list[int]:
        """Plain text -> ids, none of them a control token. A lone surrogate, which is no text, reads as U+FFFD."""
        ids: list[int] = self._encode(text).ids
        return ids

    def char_starts(self, text: str) -> list[int]:
        """For each token of `encode(text)`, the index of the character it begins in."""
        return [start for start, _ in self._encode(text).offsets]

    def _encode(self, text: str) -> Encoding:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return self._tokenizer.encode(whole, add_special_tokens=False)


def _load(file: Path) -> HfTokenizer:
    """The library's tokenizer, set so that text which looks like an added token is encoded as ordinary characters.

    That setting looks at *special* tokens only, and some checkpoints mark their semantic tokens otherwise: here every
    added token counts as special.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        for token in data.get("added_tokens") or []:
            token["special"] = True
        tokenizer = HfTokenizer.from_str(json.dumps(data))
    except FileNotFoundError:
        raise TokenizerError(f"{file} is missing") from None
    except Exception as error:  # the library raises bare Exception for what it cannot read
        raise TokenizerError(f"{file} is not readable: {error}") from None
    tokenizer.encode_special_tokens = True
    return tokenizer
