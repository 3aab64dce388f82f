"""The index of vector stores in PostgreSQL's SQL: the tables of all stores, how they are written and how they are looked into.

A chunk's words are a `tsvector`, whose first word is the mark of its store, so that the index of words finds those of one store
alone. Its vector is a `halfvec` of pgvector, in a table that is made where that is installed. Parameters are $1, $2 and so on.
Pure. Above: the connections and the indexes. Below: nothing.
"""

__all__ = ["PostgresStatements"]

_TABLES = """
CREATE TEXT SEARCH DICTIONARY {stem} (TEMPLATE = snowball, LANGUAGE = english)
CREATE TEXT SEARCH CONFIGURATION {words} (COPY = simple)
ALTER TEXT SEARCH CONFIGURATION {words} ALTER MAPPING FOR asciiword, word WITH {stem}
CREATE TABLE {stores} (id BIGSERIAL PRIMARY KEY, tenant TEXT NOT NULL, store TEXT NOT NULL, changes BIGINT NOT NULL DEFAULT 0, \
chunks BIGINT NOT NULL DEFAULT 0, dimensions INTEGER NOT NULL DEFAULT 0, UNIQUE (tenant, store))
CREATE TABLE {files} (id BIGSERIAL PRIMARY KEY, store BIGINT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, \
attributes TEXT NOT NULL DEFAULT '{{}}', ready BOOLEAN NOT NULL DEFAULT FALSE)
CREATE INDEX {index}files_key ON {files} (store, key)
CREATE TABLE {chunks} (id BIGSERIAL PRIMARY KEY, file BIGINT NOT NULL, start BIGINT NOT NULL, stop BIGINT NOT NULL, \
text TEXT NOT NULL, words TSVECTOR NOT NULL)
CREATE INDEX {index}chunks_file ON {chunks} (file)
CREATE INDEX {index}chunks_words ON {chunks} USING gin (words)
CREATE TABLE {version} (number INTEGER NOT NULL)
INSERT INTO {version} VALUES (1)
"""
_VECTORS = """
CREATE TABLE {vectors} (chunk BIGINT PRIMARY KEY, store BIGINT NOT NULL, file BIGINT NOT NULL, vector {halfvec} NOT NULL)
CREATE INDEX {index}vectors_store ON {vectors} (store)
CREATE INDEX {index}vectors_file ON {vectors} (file)
"""
_NEAREST = "SELECT chunk, -(vector {away} $2::text::{halfvec}) FROM {vectors} WHERE store = $1 AND "
_NEAREST_FIRST = " ORDER BY vector {away} $2::text::{halfvec}, chunk LIMIT $3"
_READY = "file IN (SELECT id FROM {files} WHERE store = $1 AND ready)"


class PostgresStatements:
    """The statements for tables whose names begin with `prefix`, in a `schema` where there is one."""

    def __init__(self, prefix: str, schema: str | None = None) -> None:
        where = f'"{schema}".' if schema else ""
        names = ("stores", "files", "chunks", "vectors", "version", "stem", "words")
        self._names = {each: f'{where}"{prefix}search_{each}"' for each in names}
        self._names["index"] = f"{prefix}search_"
        self.tables = self._several(_TABLES)
        self.version_name, self.vectors_name = self._names["version"], self._names["vectors"]
        self.version = self._one("SELECT number FROM {version}")
        self._write()
        self._read()
        self._look()

    def _one(self, text: str) -> str:
        return text.format_map(self._names)

    def _several(self, text: str) -> tuple[str, ...]:
        return tuple(each for each in self._one(text).split("\n") if each)

    def with_vectors(self, schema: str) -> tuple[str, ...]:
        """What makes the table of vectors, where the extension's types and operators are in `schema`."""
        self.use_vectors(schema)
        return self._several(_VECTORS)

    def use_vectors(self, schema: str) -> None:
        """Have the statements name the extension's type and operator."""
        self._names["halfvec"] = f'"{schema}".halfvec'
        self._names["away"] = f'OPERATOR("{schema}".<#>)'
        self.put_vector = self._one(
            "INSERT INTO {vectors} (chunk, store, file, vector) VALUES ($1, $2, $3, $4::text::{halfvec})"
        )
        self.nearest = self._one(_NEAREST + _READY + _NEAREST_FIRST)
        """Chunks by how near their vectors are, which have the length one."""
        self.nearest_of_some = self._one(_NEAREST + _READY + " AND file = ANY($4)" + _NEAREST_FIRST)
        self.drop_vectors = self._one("DELETE FROM {vectors} WHERE file = $1")

    def _write(self) -> None:
        self.make_store = self._one(
            "INSERT INTO {stores} (tenant, store) VALUES ($1, $2) ON CONFLICT (tenant, store) DO NOTHING"
        )
        self.note_change = self._one("UPDATE {stores} SET changes = changes + 1 WHERE id = $1")
        self.begin = self._one("INSERT INTO {files} (store, key, name) VALUES ($1, $2, $3) RETURNING id")
        self.take_room = self._one(
            "UPDATE {stores} SET chunks = chunks + $2 WHERE id = $1 AND chunks + $2 <= $3 RETURNING dimensions"
        )
        self.has_file = self._one("SELECT 1 FROM {files} WHERE id = $1 AND store = $2")
        self.set_dimensions = self._one("UPDATE {stores} SET dimensions = $2 WHERE id = $1")
        self.put_chunk = self._one(
            "INSERT INTO {chunks} (id, file, start, stop, text, words) "
            "VALUES ($1, $2, $3, $4, $5, to_tsvector('{words}', $6) || $7::text::tsvector)"
        )
        self.numbers = self._one("SELECT nextval(pg_get_serial_sequence('{chunks}', 'id')) FROM generate_series(1, $1)")
        self.hide = self._one("UPDATE {files} SET ready = FALSE WHERE store = $1 AND key = $2")
        self.show = self._one("UPDATE {files} SET ready = TRUE, attributes = $2 WHERE id = $1")
        self.set_attributes = self._one("UPDATE {files} SET attributes = $3 WHERE store = $1 AND key = $2")
        self.hidden = self._one("SELECT id FROM {files} WHERE store = $1 AND key = $2 AND NOT ready")
        self.all_files = self._one("SELECT id FROM {files} WHERE store = $1")
        self.drop_chunks = self._one(
            "DELETE FROM {chunks} WHERE id IN (SELECT id FROM {chunks} WHERE file = $1 LIMIT $2)"
        )
        self.drop_file = self._one("DELETE FROM {files} WHERE id = $1")
        self.drop_store = self._one("DELETE FROM {stores} WHERE id = $1")
        self.free_room = self._one("UPDATE {stores} SET chunks = chunks - $2, changes = changes + 1 WHERE id = $1")

    def _read(self) -> None:
        self.store = self._one("SELECT id, changes, chunks, dimensions FROM {stores} WHERE tenant = $1 AND store = $2")
        self.stores = self._one("SELECT tenant, store FROM {stores} ORDER BY id")
        self.files = self._one("SELECT id, key, name, attributes FROM {files} WHERE store = $1 AND ready")
        whole = " FROM {chunks} WHERE file IN (SELECT id FROM {files} WHERE store = $1 AND key = $2 AND ready)"
        self.size = self._one("SELECT count(*), coalesce(sum(octet_length(text)), 0)" + whole)
        self.texts = self._one("SELECT text, start, stop" + whole + " ORDER BY id")
        self.has_vectors = self._one(
            "SELECT EXISTS (SELECT 1 FROM {vectors} WHERE file IN "
            "(SELECT id FROM {files} WHERE store = $1 AND key = $2 AND ready))"
        )
        self.hits = self._one("SELECT id, file, text, start, stop FROM {chunks} WHERE id = ANY($1)")

    def _look(self) -> None:
        self.terms = self._one(
            "SELECT word, term::text, CASE WHEN numnode(term) = 0 THEN 0 ELSE (SELECT count(*) FROM (SELECT 1 FROM {chunks} "
            "WHERE words @@ ($2::text::tsquery && term) LIMIT $3) AS hit) END "
            "FROM unnest($1::text[]) AS word, phraseto_tsquery('{words}', word) AS term"
        )
        """Of each word what is looked for, and how many chunks of the store have it, counted to a bound."""
        ranked = (
            "SELECT hit.id, sum(terms.weight * ts_rank(hit.words, terms.term::tsquery, 1)) AS score "
            "FROM (SELECT id, words FROM {chunks} WHERE words @@ $2::text::tsquery AND "
        )
        order = (
            " LIMIT $6) AS hit JOIN unnest($3::text[], $4::float8[]) AS terms (term, weight) "
            "ON hit.words @@ terms.term::tsquery GROUP BY hit.id ORDER BY score DESC, hit.id LIMIT $5"
        )
        self.ranked = self._one(ranked + _READY + order)
        """Chunks by their words: PostgreSQL's rank of each word, which counts less in a long text, times its weight."""
        self.ranked_of_some = self._one(ranked + _READY + " AND file = ANY($7)" + order)
