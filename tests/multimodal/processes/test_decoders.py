"""Items of one request, processed at once by the threads that there are."""

import io
import threading

import pytest
from PIL import Image
from reference_families import FAMILIES
from tests.shared import PATIENCE
from vocabulary import TestVocabulary

from smg_core.models.media_service import decoder_threads
from smg_multimodal.configs.files import ModelFiles
from smg_multimodal.decoding.decode import ImageLimits
from smg_multimodal.decoding.reader import PlainReader
from smg_multimodal.fetching.egress import EgressRules
from smg_multimodal.fetching.fetch import Fetcher, MediaLoader, Source
from smg_multimodal.preparing.prepare import Preparer
from smg_multimodal.processes.decoders import Decoders


def picture(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (60, 40), (shade, 9, 9)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 6, 8, 16, 64, 192])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_three_quarters_of_the_threads_are_all_cores_divided_by_the_processes(cores: int, processes: int) -> None:
    threads = decoder_threads(cores, processes)
    assert max(1, threads * 3 // 4) * processes >= cores
    assert (threads - 3) * processes <= 2 * cores


@pytest.mark.anyio
@pytest.mark.parametrize("tenant", ["", "somebody"])
async def test_eight_pictures_of_one_request_are_decoded_by_all_cores_at_once(tenant: str) -> None:
    cores = 4
    together = threading.Barrier(cores, timeout=PATIENCE)  # breaks unless as many decode at once

    class Together(PlainReader):
        def picture(self, data: bytes, limits: ImageLimits) -> Image.Image:
            together.wait()
            return super().picture(data, limits)

    family = FAMILIES["qwen2.5-vl"]
    files = ModelFiles(family.model, family.preprocessor, family.processor)
    decoders, fetcher = Decoders(threads=decoder_threads(cores, 1)), Fetcher(EgressRules())
    try:
        loader = MediaLoader(Preparer(files, TestVocabulary(), reader=Together()), fetcher, decoders=decoders)
        _, items = await loader.load([Source(data=picture(shade)) for shade in range(8)], tenant=tenant)
    finally:
        decoders.close()
        await fetcher.close()
    assert len({item.content_hash for item in items}) == 8
