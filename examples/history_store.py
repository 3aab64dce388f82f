"""The history without a gateway: a store opened by its URL, put, get and list.

python examples/history_store.py [sqlite:////tmp/notes.db]
"""

import asyncio
import sys

from smg_core.history import DeleteRecord, PutRecord, StaleVersion, StoredRecord, open_store


def note(number: int, text: bytes) -> StoredRecord:
    return StoredRecord(kind="note", id=f"note-{number}", body=text, created_at=float(number))


async def main(url: str) -> None:
    async with open_store(url) as store:
        await store.write("acme", [PutRecord(note(1, b"one")), PutRecord(note(2, b"two"))])  # both or none
        found = await store.record("acme", "note", "note-1")
        assert found is not None
        print(found.body, await store.record("globex", "note", "note-1"))  # another tenant's is not there

        await store.write("acme", [PutRecord(note(1, b"changed"), if_version=found.version)])
        try:
            await store.write("acme", [PutRecord(note(1, b"late"), if_version=found.version)])
        except StaleVersion as error:
            print(error)

        page = await store.records("acme", "note", limit=10)
        print([(each.id, each.body) for each in page.data], page.has_more)
        await store.write("acme", [DeleteRecord("note", each.id) for each in page.data])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
