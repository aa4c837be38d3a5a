"""`python -m tests.gates.gateway.opened WORD...`, in a stack's environment: which stored objects have each word, once they are opened.

Prints {"objects": n, "bytes": n, "hits": {word: [object id]}} as JSON.
"""

import json
import sys
from collections.abc import Iterator


def plain_objects() -> Iterator[tuple[str, bytes]]:
    """Every pack with each of its units, whoever needs it or nobody, and every manifest, decrypted."""
    from checkpoints_app.models import Manifest, Pack
    from checkpoints_app.services import key, storage
    from checkpoints_app.store import Kind, object_key
    from checkpoints_app.store.packs import decode_frame, opener_of
    from checkpoints_app.store.scan import read_listing

    backend = storage.backend()
    for row in Pack.objects.all():
        keys = key.keys_to_read(row.account_id)
        index = read_listing(backend, keys, row.account_id, row.id, row.generation)
        opener, stored = opener_of(keys, row.account_id, index), object_key(row.account_id, Kind.PACK, row.id, row.generation)
        for frame in range(len(index.codecs)):
            start, end = int(index.offsets[frame]), int(index.offsets[frame + 1])
            yield row.id, bytes(decode_frame(opener, index, frame, backend.read(stored, start, end - start)))
    for row_ in Manifest.objects.all():
        yield row_.id, manifest_bytes(row_.account_id, row_.id)


def manifest_bytes(account_id: str, manifest_id: str) -> bytes:
    """What it tells; the device state lies in packs, as memory and disk do."""
    from checkpoints_app.services import key, storage
    from checkpoints_app.store import load_manifest

    return repr(load_manifest(storage.backend(), key.keys_to_read(account_id), account_id, manifest_id).facts).encode()


def main() -> None:
    import django

    django.setup()
    words = sys.argv[1:]
    hits: dict[str, list[str]] = {word: [] for word in words}
    read, objects = 0, set()
    for id_, plain in plain_objects():
        objects.add(id_)
        read += len(plain)
        for word in words:
            if word.encode() in plain:
                hits[word] = [*dict.fromkeys([*hits[word], id_])]
    sys.stdout.write(json.dumps({"objects": len(objects), "bytes": read, "hits": hits}))


if __name__ == "__main__":
    main()
