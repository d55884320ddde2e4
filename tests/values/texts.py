"""Random texts: values of a type in their many forms, values at its limits, and texts that are nearly values."""

from __future__ import annotations

import ipaddress
import random
import uuid
from collections.abc import Callable
from datetime import date, timedelta

from tests.values.oracle import ENUMS, Kind

ODD = [
    "",
    " ",
    "-",
    "+",
    ".",
    "e",
    "0",
    "1",
    "-1",
    "00",
    "null",
    "NULL",
    "none",
    "None",
    "N/A",
    "n/a",
    "#N/A",
    "-nan",
    "\\N",
]
ODD += [
    "true",
    "false",
    "True",
    "FALSE",
    "t",
    "f",
    "yes",
    "no",
    "on",
    "off",
    "x",
    "é",
    "٣",
    "\uff11\uff12",
    "1\u00a0000",
    "0x10",
]
ODD += [
    "1_000",
    "1,000",
    "1.000,5",
    "1 000",
    "12.5%",
    "$5",
    "1/2",
    "--1",
    "+-1",
    "-+1",
    "1e",
    "1e+",
    "e5",
    ".e1",
    "1.e5",
]
ODD += ["1.5.2", "1..2", "192.168.1.10", "31.12.23", "1.234.567", "inf", "-inf", "Infinity", "NaN", "1e400", "-1e400"]
ODD += [
    "5e-324",
    "1e-400",
    "2.2250738585072011e-308",
    "1.7976931348623159e308",
    "3.4028236e38",
    "1e39",
    "1d",
    "1f",
    "1L",
]
ODD += [
    "10:30",
    "10:30:00",
    "25:61:61",
    "1:2:3",
    "99:59:59",
    "999:59:59",
    "1000:00:00",
    "-1:00:00",
    "12:00 PM",
    "noon",
]
ODD += ["1700000000", "1700000000123", "1700000000.5", "20231", "2023", "2023-02", "2023-W05-1", "2023-045"]
ODD += [
    "Jan  2 10:00:00 +0000",
    "28 Feb 2023 10:45:59 +0000",
    "Feb 28 2023",
    "28/02/2023",
    "02/28/2023",
    "28.02.2023",
]
ODD += [
    "0000-00-00",
    "0000-00-00 00:00:00",
    "0001-01-01",
    "9999-12-31",
    "9999-12-31 23:59:59",
    "24-03-31",
    "now",
    "today",
]
ODD += ["2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-03-10 02:30", "2024-11-03 01:30", "1980-04-06 02:30:00"]
ODD += [
    "2023-02-30",
    "2023-02-29",
    "2024-02-29",
    "2023-13-01",
    "2023-00-10",
    "2023-01-00",
    "2023-01-32",
    "2100-02-29",
]
ODD += ["1960-01-01 00:00:00.25", "1969-12-31 23:59:59.999", "1970-01-01", "1969-12-31", "2106-02-07 06:28:15"]
ODD += ["2106-02-07 06:28:16", "2149-06-06", "2149-06-07", "1900-01-01", "1899-12-31", "2299-12-31", "2300-01-01"]
ODD += ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+02:00", "2024-01-01 24:00:00", "2024-06-30 23:59:60"]
ODD += [
    "7.81",
    "0.1",
    "1e0",
    "1E5",
    "100e-2",
    "1e2",
    "0.30000000000000004",
    "123456789012345678901234567890",
    "9" * 80,
]
ODD += ["::1", "::", "1.2.3.4", "01.2.3.4", "1.2.3", "1.2.3.256", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3.4/32"]
ODD += ["[1]", "{}", "[]", "{'a': 1}", '{"a": 1}', "a", "HI", "hi", "LOW", "300", "2", "x y", "a ", "b"]


def random_text(kind: Kind, chance: random.Random) -> str:
    """Make up a text for a column of a kind."""
    draw = chance.random()
    if draw < 0.12:
        return chance.choice(ODD)
    if draw < 0.18:
        return _MAKERS[chance.choice(list(_MAKERS))](kind, chance)
    text = _MAKERS[kind.family](kind, chance)
    return text if draw < 0.65 else mutate(text, chance)


ALPHABET = "0123456789+-.,:/ TZeE_'%xn"
ENDS = (" ", "\t", "Z", "0", ".", "e5", "x", "+01:00", " UTC", "\0", "000000", ".0")
CHANGES: tuple[Callable[[str, int, random.Random], str], ...] = (
    lambda text, at, chance: text[:at] + text[max(0, at - 1) : at] + text[at:],  # twice the same
    lambda text, at, chance: text[: max(0, at - 1)] + text[at:],
    lambda text, at, chance: text[:at] + chance.choice(ALPHABET) + text[at:],
    lambda text, at, chance: text[:at] + chance.choice(ALPHABET) + text[at:],
    lambda text, at, chance: text[: max(0, at - 1)] + chance.choice(ALPHABET) + text[at:],
    lambda text, at, chance: chance.choice(("+", "-", "--", "0", "00", " ", "\t")) + text,
    lambda text, at, chance: text + chance.choice(ENDS),
    lambda text, at, chance: text.upper() if chance.random() < 0.5 else text.lower(),
    lambda text, at, chance: text.replace(chance.choice("-:. 0"), chance.choice(("/", ".", "", "-", " ", "٣")), 1),
    lambda text, at, chance: text[:at],
)


def mutate(text: str, chance: random.Random) -> str:
    """Change a text a little."""
    for _ in range(chance.choice((1, 1, 1, 2))):
        text = chance.choice(CHANGES)(text, chance.randrange(len(text) + 1), chance)
    return text


def _integer(kind: Kind, chance: random.Random) -> str:
    digits = "".join(filter(str.isdigit, kind.type)) if kind.family == "integer" else "64"
    bits = int(digits)
    if chance.random() < 0.5:
        edge = chance.choice(
            (0, 2**bits, 2 ** (bits - 1), -(2 ** (bits - 1)), 2**63, 2**64, 10 ** chance.randrange(80))
        )
        return str(edge + chance.choice((-1, 0, 1)))
    value = chance.randrange(2 ** chance.randrange(1, bits + 1))
    text = str(value if kind.type.startswith("U") else chance.choice((value, -value)))
    return text if chance.random() < 0.85 else text.zfill(chance.randrange(1, 30))


def _float(kind: Kind, chance: random.Random) -> str:
    match chance.randrange(7):
        case 0:
            return f"{chance.uniform(-1000, 1000):.{chance.randrange(8)}f}"
        case 1:
            return repr(chance.uniform(-1, 1) * 10.0 ** chance.randrange(-320, 309))
        case 2:
            return f"{chance.choice(('', '-', '+'))}{chance.randrange(10**17)}e{chance.randrange(-340, 300)}"
        case 3:
            return f"{chance.random() * 10:.17g}"
        case 4:
            short = (".5", "5.", "0.", ".0", "1.50", "00.5", "1E5", "1e+05", "1e-05")
            return f"{chance.choice(('', '-'))}{chance.choice(short)}"
        case 5:
            return f"{chance.randrange(10**6)}.{chance.randrange(10**6):06d}"
    return f"{chance.randrange(10**40)}.{chance.randrange(10**40)}"


def _decimal(kind: Kind, chance: random.Random) -> str:
    pieces = kind.type.removeprefix("Decimal(").removesuffix(")").split(", ")
    precision, scale = map(int, pieces) if kind.family == "decimal" else (9, 2)
    match chance.randrange(6):
        case 0:
            unscaled = 10**precision + chance.choice((-1, 0, 1))
        case 1:
            return f"{chance.randrange(-999, 999)}e{chance.randrange(-12, 12)}"
        case _:
            unscaled = chance.randrange(10 ** chance.randrange(1, precision + 1))
    shown = str(unscaled).zfill(scale + 1)
    text = f"{shown[:-scale]}.{shown[-scale:]}" if scale else shown
    text = chance.choice(("", "", "-", "+")) + text
    if "." in text and chance.random() < 0.3:
        text = text.rstrip("0") if chance.random() < 0.5 else text + "0" * chance.randrange(1, 5)
    return text + (str(chance.randrange(10)) if "." in text and chance.random() < 0.15 else "")


YEARS = (1, 1899, 1900, 1901, 1969, 1970, 2023, 2024, 2038, 2105, 2106, 2149, 2150, 2262, 2263, 2299, 2300, 9999)


def _any_day(chance: random.Random) -> date:
    if chance.random() < 0.3:
        return date(chance.choice(YEARS), 1, 1) + timedelta(days=chance.randrange(365))
    if chance.random() < 0.1:
        return chance.choice((date(2024, 3, 31), date(2024, 10, 27), date(2024, 3, 10), date(2024, 11, 3)))
    return date(1900, 1, 1) + timedelta(days=chance.randrange(365 * 250))


def _day(kind: Kind, chance: random.Random) -> str:
    day = _any_day(chance)
    text = day.isoformat()
    match chance.randrange(14):
        case 0:
            return text.replace("-", chance.choice(("", "/", ".")))
        case 1:
            return f"{day.year}-{day.month}-{day.day}"
        case 2:
            midnight = chance.choice(("00:00", "00:00:00", "00:00:00.000"))
            return f"{text}{chance.choice((' ', 'T'))}{midnight}{chance.choice(('', 'Z'))}"
        case 3:
            return f"{day.day:02d}/{day.month:02d}/{day.year}"
        case 4:
            return f"{day.year:04d}-{chance.randrange(14):02d}-{chance.randrange(33):02d}"
    return text


def _clock(chance: random.Random, *, hours: int = 24) -> str:
    seconds = chance.randrange(hours * 3600)
    if chance.random() < 0.2:
        seconds = chance.choice((0, hours * 3600 - 1, 7200 + 1800, 3600 + 1800, 2 * 3600, 3 * 3600))
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if chance.random() < 0.85:
        text += f":{seconds % 60:02d}"
        if chance.random() < 0.5:
            digits = chance.choice((1, 2, 3, 3, 3, 6, 6, 7, 9))
            fraction = str(chance.randrange(10**digits)).zfill(digits)
            text += f".{fraction[: chance.choice((digits, 1, 3))].ljust(digits, '0')}"
    return text


def _time(kind: Kind, chance: random.Random) -> str:
    day = _any_day(chance)
    text = f"{day.isoformat()}{chance.choice((' ', ' ', 'T'))}{_clock(chance)}"
    match chance.randrange(16):
        case 0:
            return day.isoformat()
        case 1 | 2:
            return f"{text}Z"
        case 3:
            return f"{text}{chance.choice('+-')}{chance.randrange(15):02d}{chance.choice((':00', '00', '', ':30'))}"
        case 4:
            return f"{day:%Y%m%d}T{_clock(chance).replace(':', '')}"
        case 5:
            return (
                f"{day.year}{day:%m%d}{chance.randrange(25):02d}{chance.randrange(61):02d}{chance.randrange(61):02d}"
            )
        case 6:
            return text.replace("-", chance.choice("/."))
        case 7:
            return str(
                chance.choice((10**9, 17 * 10**8, 17 * 10**11, 17 * 10**14, -1, 0, 86400)) + chance.randrange(1000)
            )
        case 8:
            return f"{day.year}-{day.month}-{day.day} {_clock(chance).lstrip('0')}"
    return text


def _span(kind: Kind, chance: random.Random) -> str:
    text = _clock(chance, hours=chance.choice((24, 24, 100, 1000)))
    return text.removeprefix("0") if chance.random() < 0.2 else text


def _bool(kind: Kind, chance: random.Random) -> str:
    return chance.choice(("true", "false", "1", "0", "True", "FALSE", "t", "n", "yes", "off", "2", "-1", "1.0", "01"))


def _enum(kind: Kind, chance: random.Random) -> str:
    names = ENUMS.get(kind.type, ("a",))
    return chance.choice((*names, *names, *names, "A", "1", "300", "-5", "3", "0", ""))


def _uuid(kind: Kind, chance: random.Random) -> str:
    value = uuid.UUID(int=chance.getrandbits(128))
    return chance.choice((str(value), str(value), str(value).upper(), value.hex, f"{{{value}}}", value.urn))


def _ipv4(kind: Kind, chance: random.Random) -> str:
    return str(ipaddress.IPv4Address(chance.choice((0, 2**32 - 1, chance.getrandbits(32)))))


def _ipv6(kind: Kind, chance: random.Random) -> str:
    address = ipaddress.IPv6Address(
        chance.choice((0, 1, chance.getrandbits(128), chance.getrandbits(32) + 0xFFFF00000000))
    )
    return chance.choice((str(address), address.exploded, str(address).upper()))


def _text(kind: Kind, chance: random.Random) -> str:
    alphabet = chance.choice(("abc", "0123456789", "aé漢😀", " \t,;'\"\\/", "a\n\r", "a\0b", "[]{}():"))
    return "".join(chance.choices(alphabet, k=chance.randrange(6)))


_MAKERS: dict[str, Callable[[Kind, random.Random], str]] = {
    "integer": _integer,
    "float": _float,
    "decimal": _decimal,
    "day": _day,
    "time": _time,
    "span": _span,
    "bool": _bool,
    "enum": _enum,
    "uuid": _uuid,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "text": _text,
}
