"""Oracle: its statements are compiled and looked at; the conformance suite runs on it where ORACLE_DSN names one."""

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import oracle
from sqlalchemy.schema import CreateIndex, CreateTable

from smg_core.history.sql.names import Names
from smg_core.history.sql.statements import Statements, Upsert
from smg_core.history.sql.tables import ShortText, StoreTables

DIALECT = oracle.dialect()
TABLES = StoreTables(Names())
OF = Statements(TABLES, "oracle")


def compiled(statement) -> str:
    return str(statement.compile(dialect=DIALECT))


READS = {name: each for name, each in vars(OF).items() if isinstance(each, sa.Select) and not name.startswith("lock_")}
READS |= {f"items{shape}": each for shape, each in OF.items.items()}
READS |= {f"records{shape}": each for shape, each in OF.records.items()}
READS["of_tenant"] = OF.of_tenant(TABLES.items, "t", ("c", "i"))
WRITES = {name: each for name, each in vars(OF).items() if isinstance(each, sa.sql.ClauseElement)}
WRITES |= {f"expired {name}": each for name, each in OF.drop_expired.items()}
WRITES |= {f"orphans of {name}": each.of_one for name, each in OF.orphans.items()}
WRITES |= {f"orphans of a tenant's {name}": each.of_tenant for name, each in OF.orphans.items()}
UPSERTS = {name: each for name, each in vars(OF).items() if isinstance(each, Upsert)}


@pytest.mark.parametrize("name", READS)
def test_every_read_of_a_tenant_compiles_and_asks_for_the_tenant(name: str) -> None:
    text = compiled(READS[name])

    assert "tenant = :" in text
    assert "LIMIT" not in text
    assert "RECURSIVE" not in text


def test_a_chain_names_its_columns_as_oracle_wants_it() -> None:
    assert compiled(READS["chain"]).startswith("WITH chain(link_id, parent_id, depth, total) AS")


@pytest.mark.parametrize("name", [*WRITES, "abandoned", "expired"])
def test_every_other_statement_compiles(name: str) -> None:
    others = {"abandoned": OF.abandoned("response", 10, 0.0), "expired": OF.expired(TABLES.records, 10, 0.0)}
    assert compiled({**WRITES, **others}[name])


@pytest.mark.parametrize("name", UPSERTS)
def test_a_row_is_updated_or_else_inserted(name: str) -> None:
    upsert = UPSERTS[name]
    row = dict.fromkeys((*upsert.keys, *upsert.changing))
    given = [*upsert.changing, *(f"{key}_" for key in upsert.keys)]

    assert upsert.whole is None
    assert sorted(upsert.for_update(row)) == sorted(given)
    text = str(upsert.update.compile(dialect=DIALECT, column_keys=list(upsert.for_update(row))))
    assert text.startswith("UPDATE smg_")
    assert all(f":{key}_" in text for key in upsert.keys)
    assert compiled(upsert.insert).startswith("INSERT INTO smg_")


def test_the_tables_compile_with_types_that_oracle_has() -> None:
    made = [str(CreateTable(table).compile(dialect=DIALECT)) for table in TABLES.metadata.sorted_tables]
    indexes = [
        str(CreateIndex(each).compile(dialect=DIALECT)) for t in TABLES.metadata.sorted_tables for each in t.indexes
    ]

    assert len(made) == 8
    assert all("VARCHAR2(255 CHAR)" in text for text in made)
    assert "BLOB" in made[0] + made[1]
    assert not any(" WHERE " in text for text in indexes)


@pytest.mark.parametrize("text", ["", "~", "~~x", "acme"])
def test_an_empty_name_is_no_null_there(text: str) -> None:
    kept = ShortText().process_bind_param(text, DIALECT)

    assert kept
    assert ShortText().process_result_value(kept, DIALECT) == text
