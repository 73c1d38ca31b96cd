"""Detectors that every folder of rails can call: prompt injection, and personal data.

They are regular expressions and checksums, so they need no model and no network, and they find what
they were written for and nothing else.
"""

import re
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

_Result = TypeVar("_Result")

_VERBS = r"(?:ignore|disregard|forget|override|bypass|skip)"
_BEFORE = r"(?:previous|prior|above|earlier|preceding|foregoing|system|initial|original)"
_RULES = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directives?|messages?|context|restrictions?)"
)
_INJECTIONS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_VERBS}\b.{{0,40}}?\b{_BEFORE}\b.{{0,30}}?\b{_RULES}\b",
        rf"\b{_VERBS}\b\s+(?:all\s+)?(?:of\s+)?(?:your|the)\s+{_RULES}\b",
        rf"\b(?:reveal|print|show|repeat|output|leak)\b.{{0,30}}?\b(?:your|the)\s+"
        rf"(?:hidden\s+|secret\s+|full\s+)?(?:system|initial|original)\s+{_RULES}\b",
        r"\byou\s+are\s+(?:now\s+)?(?:in\s+)?(?:DAN|developer\s+mode|jailbroken|unrestricted)\b",
        r"\b(?:pretend|act)\b.{0,40}?\b(?:no|without)\s+(?:any\s+)?"
        r"(?:restrictions?|filters?|rules?|guidelines?|limits?)\b",
        r"<\|(?:im_start|im_end|system|endoftext)\|>",
    )
)
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")


_PART = 16 << 10
"""Characters that are read at once: some milliseconds, in which a server does nothing else."""
_LONGEST = 1 << 10
"""More characters than any pattern can match."""


def find_prompt_injection(text: str) -> bool:
    """Return whether a text tries to replace the instructions of a model, in English.

    Invisible characters and line breaks between the words do not hide it.
    """
    return result_of(search_prompt_injection(text))


def mask_personal_data(text: str) -> str:
    """Return a text with e-mail addresses, IBANs, payment cards and telephone numbers masked."""
    return result_of(masking_personal_data(text))


def result_of(steps: Generator[None, None, _Result]) -> _Result:
    """Return the result of work in steps."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def search_prompt_injection(text: str) -> Generator[None, None, bool]:
    """Do the work of `find_prompt_injection` in steps, between which others can run."""
    plain = " ".join(_INVISIBLE.sub("", text).split())
    for pattern in _INJECTIONS:
        for found in _found(pattern, plain):
            if found is not None:
                return True
            yield
    return False


def masking_personal_data(text: str) -> Generator[None, None, str]:
    """Do the work of `mask_personal_data` in steps, between which others can run."""
    for pattern, mask, holds in _KINDS:
        parts: list[str] = []
        last = 0
        for found in _found(pattern, text):
            if found is None:
                yield
            elif holds(found.group()):
                parts += [text[last : found.start()], mask]
                last = found.end()
        text = "".join([*parts, text[last:]])
    return text


def _found(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str] | None]:
    """Yield what a pattern matches, as `finditer` does, and None after each part of the text."""
    at, pause = 0, _PART
    while at <= len(text):
        if at >= pause:
            pause = at + _PART
            yield None
        end = min(len(text), at + _PART)
        found = pattern.search(text, at, end)
        if found is None:
            if end == len(text):
                return
            at = end - _LONGEST
            pause = at
        elif end < len(text) and at < found.start() and end - _LONGEST < found.end():
            at = found.start()  # the end of the part may have cut it
        else:
            yield found
            at = max(found.end(), at + 1)


def _is_card(text: str) -> bool:
    """Return whether digits are a payment card's: their number and Luhn's checksum."""
    digits = [int(char) for char in text if char.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1:
        return False
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2]]
    return (sum(digits[::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    """Return whether letters and digits have the checksum of an IBAN (ISO 13616, mod 97)."""
    plain = re.sub(r"\s", "", text).upper()
    if not 15 <= len(plain) <= 34:
        return False
    moved = plain[4:] + plain[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def _is_phone(text: str) -> bool:
    """Return whether digits are as long as a telephone number (ITU E.164: at most 15)."""
    return 8 <= sum(char.isdigit() for char in text) <= 15


def _always(_: str) -> bool:
    return True


_KINDS: tuple[tuple[re.Pattern[str], str, Callable[[str], bool]], ...] = (
    (
        re.compile(r"\b[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"),
        "<EMAIL>",
        _always,
    ),
    (
        re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
        "<IBAN>",
        _is_iban,
    ),
    (re.compile(r"(?<![\w.+-])\d(?:[ -]?\d){12,18}(?![\w-])"), "<CARD>", _is_card),
    (
        # a country's code, or an area in brackets, or groups with hyphens: plain numbers are no
        # telephone numbers
        re.compile(
            r"(?<![\w.-])(?:\+\d{1,3}[ .-]?(?:\(\d{1,5}\)[ .-]?)?\d{1,5}(?:[ .-]?\d{2,5}){1,4}"
            r"|\(\d{2,5}\)[ .-]?\d{3,4}[ .-]?\d{3,4}"
            r"|\d{3}[.-]\d{3}[.-]\d{4})(?![\w-])"
        ),
        "<PHONE>",
        _is_phone,
    ),
)
