"""The loader, and the ISA files that come with the program."""

from __future__ import annotations

import json
import random
import re
import tomllib
from pathlib import Path

import pytest

from dspgen.errors import IsaError
from dspgen.target.describe import describe
from dspgen.target.isa.semantics import SemanticsError, format_statements, parse
from dspgen.target.load import isa_names, isa_path, load_target
from dspgen.target.schema.expressions import ExpressionError, evaluate
from dspgen.target.schema.toml_positions import locate

LABELS = {"published", "mined", "derived", "assumed"}


@pytest.mark.parametrize("name", isa_names())
def test_every_row_has_a_label_a_source_and_semantics_that_print_and_parse(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    for row in target.instructions:
        assert row.label in LABELS, row.id
        assert row.source, row.id
        assert row.semantics, row.id
        assert parse(format_statements(row.semantics), target.lanes) == row.semantics
        assert set(row.all_units) <= set(target.unit_members)
        assert [m for m, _ in row.suffixes] == list(row.all_units)
        assert (row.memory is not None) == any(o.kind == "memory" for o in row.operands)


@pytest.mark.parametrize("name", isa_names())
@pytest.mark.parametrize("lanes", [1, 2, 32, 64])
def test_a_sweep_of_lanes_and_counts_stays_consistent(name: str, lanes: int) -> None:
    plain = load_target(name)
    unit = plain.units[lanes % len(plain.units)]
    for count in (1, 2, 5):
        sets = (("lanes", str(lanes)), (f"units.{unit.name}.count", str(count)))
        try:
            target = load_target(name, sets)
        except IsaError as error:
            # A row may name a single unit of the group that is no longer there.
            assert all(p.code == "DG107" for p in error.problems)
            continue
        assert target.lanes == lanes
        assert next(u for u in target.units if u.name == unit.name).count == count
        elements = [c for c in target.registers if c.kind == "element"]
        assert all(len(c.names) == lanes for c in elements)
        wide = [i for i in target.instructions if i.memory is not None and i.memory.side == "vector"]
        for row in wide:
            before = plain.instruction(row.id).memory
            assert row.memory is not None and before is not None
            assert row.memory.bytes * plain.lanes == before.bytes * lanes


def test_figures_of_the_first_machine() -> None:
    target = load_target("ft_m7002")
    assert (target.lanes, target.packets.issue, target.packets.minimum_ii) == (16, 11, 7)
    assert len(target.unit_members) == 11
    assert target.memory("AM").bytes_per_cycle == 256
    assert target.instruction("VFADDS32").units == ("VMAC1",)
    assert target.instruction("SADDA_V").latency == 3
    assert target.instruction("SADDA_S").latency == 2
    assert target.instruction("VSHUFH").implicit_reads == ("SMR", "VLR")
    assert target.instruction("VREDUC16").operand("d").read
    assert target.abi.entry_values == {"VLR": 0xFFFF}
    assert target.register_class("RP").names[5] == "R11:R10"
    assert len({i.mnemonic for i in target.instructions} | {target.text.nop}) == 113


def test_overrides_reach_operands_and_short_spellings() -> None:
    target = load_target("ft_m7002", [("instruction.VLDW.d.latency", "9"), ("units.VMAC.count", "4")])
    assert target.instruction("VLDW").latency == 9
    assert target.instruction("VFMULAS32").units == ("VMAC1", "VMAC2", "VMAC3", "VMAC4")
    assert load_target("ft_m7002", [("instructions.VLDW.latency", "lanes // 2 + 3")]).instruction("VLDW").latency == 11
    single = load_target("ft_m7002", [("units.VMAC.count", "1")])
    assert single.instruction("VFADDS32").units == ("VMAC",)
    assert dict(single.instruction("VFADDS32").suffixes) == {"VMAC": ".M1"}


def test_a_renamed_copy_loads_alike(tmp_path: Path) -> None:
    text = isa_path("ft_m7002").read_text()
    raw = tomllib.loads(text)
    words = {m.get("mnemonic", id) for id, m in raw["instructions"].items()}
    words |= set(raw["instructions"]) | set(raw["units"]) | set(raw["memories"])
    for word in sorted(words, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){word}(?![\w])", f"Q{word}Z", text)
        text = re.sub(rf"(?<=units\.){word}(?=[.\]])|(?<=instructions\.){word}(?=\])", f"Q{word}Z", text)
        text = re.sub(rf"(?<=memories\.){word}(?=[.\]])", f"Q{word}Z", text)
    text = text.replace('"VMAC1"', '"QVMACZ1"')
    path = tmp_path / "renamed.toml"
    path.write_text(text)
    renamed, plain = load_target(str(path)), load_target("ft_m7002")
    assert [len(i.operands) for i in renamed.instructions] == [len(i.operands) for i in plain.instructions]
    assert [i.semantics for i in renamed.instructions] == [i.semantics for i in plain.instructions]
    assert all(i.id.startswith("Q") for i in renamed.instructions)


def test_random_latencies_load() -> None:
    seed = random.Random(7)
    plain = load_target("ft_m7002")
    sets = [(f"instructions.{i.id}.latency", str(seed.randint(1, 12))) for i in plain.instructions]
    target = load_target("ft_m7002", sets)
    for row, (_, figure) in zip(target.instructions, sets, strict=True):
        assert row.latency in (0, int(figure))


def test_the_description_is_plain_data() -> None:
    target = load_target("ft_m7002")
    data = json.loads(json.dumps(describe(target)))
    assert len(data["instructions"]) == len(target.instructions)
    assert all(row["label"] in LABELS for row in data["instructions"] + data["units"] + data["registers"])


@pytest.mark.parametrize(
    ("text", "value"),
    [("4*lanes", 64), ("2**lanes - 1", 65535), ("(units.A.count + 1)//2", 2), ("-lanes / 4", -4), ("0x10", 16)],
)
def test_expressions(text: str, value: int) -> None:
    assert evaluate(text, {"lanes": 16, "units.A.count": 3}) == value


@pytest.mark.parametrize(
    "text",
    [
        "lane",
        "1/0",
        "7/2",
        "2**-1",
        "2**100000",
        "f(1)",
        "'a'",
        "1.5",
        "True",
        "",
        "1 if 1 else 2",
        "lanes.count",
        "(((",
    ],
)
def test_bad_expressions(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, {"lanes": 16})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "d",
        "d = ",
        "d = add.i32(a, b",
        "add.i32(a) = b",
        "d.mid = a",
        "d = a + 1",
        "d = -a",
        "d = 3 4",
        "= a",
        "d = $",
    ],
)
def test_bad_semantics(text: str) -> None:
    if text == "d":
        assert parse(text, 16)[0].target is None
        return
    with pytest.raises(SemanticsError):
        parse(text, 16)


def _paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in [(*path, k), *_paths(v, (*path, k))]]
    if isinstance(value, list):
        return [p for n, v in enumerate(value) for p in [(*path, n), *_paths(v, (*path, n))]]
    return []


def test_the_locator_knows_every_key_and_value() -> None:
    text = "\n".join(
        [
            "# a comment = 1",
            'a.b = """x = 1',
            '[no] """ # tail',
            "'odd key' = { c = [1, { d = 'x=y' }], \"e.f\" = 2 } # {",
            "[t.'u v'] # [x]",
            "k = 1979-05-27 07:32:00",
            "[[t.rows]]",
            "n = [",
            "  1, # one",
            "  [2, 3],",
            "]",
            "[[t.rows]]",
            "n = [[]]",
            "[t.rows.sub]",
            "z = -0x1F",
        ]
    ).replace("-0x1F", "0x1F")
    positions = locate(text)
    for path in _paths(tomllib.loads(text)):
        assert path in positions.keys or path in positions.values, path
    assert positions.keys[("a", "b")] == (2, 1)
    assert positions.keys[("odd key", "c", 1, "d")] == (4, 25)
    assert positions.values[("t", "rows", 0, "n", 1, 1)] == (10, 7)
    assert positions.keys[("t", "rows", 1, "sub", "z")] == (15, 1)


@pytest.mark.parametrize("name", isa_names())
def test_the_locator_follows_the_isa_files(name: str) -> None:
    text = isa_path(name).read_text()
    positions = locate(text)
    for path in _paths(tomllib.loads(text)):
        assert path in positions.keys or path in positions.values, path


def test_costs_are_set_by_row() -> None:
    assert load_target("ft_m7002", [("cost.VADD", "3")]).instruction("VADD").cost == 3
    assert load_target("ft_m7002", []).instruction("VADD").cost is None
    with pytest.raises(IsaError, match=r"cost.VAD.*is not an instruction row"):
        load_target("ft_m7002", [("cost.VAD", "3")])
    with pytest.raises(IsaError, match="must not be negative"):
        load_target("ft_m7002", [("cost.VADD", "-1")])
